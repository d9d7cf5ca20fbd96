"""Job files from what others wrote: command lines and manifests."""
