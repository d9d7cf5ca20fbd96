"""A plan as containers of this machine. The only importer of docker."""
