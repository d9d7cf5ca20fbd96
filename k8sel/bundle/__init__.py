"""The entrypoint as bytes, and the files that a job mounts into its containers."""
