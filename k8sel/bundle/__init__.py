"""The entrypoint as bytes, and the files that a job brings into its containers."""
