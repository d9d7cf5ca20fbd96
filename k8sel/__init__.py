"""k8sel: one job file becomes a checked training job. Imports nothing: the entrypoint runs through here."""

__version__ = "0.1.0"
