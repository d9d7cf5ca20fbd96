"""How large a job file or a manifest may be. Imports nothing: the command line reads these before it reads a file."""

MAX_BYTES = 1 << 20  # the largest manifest in use has some kilobytes, and etcd takes no object of more than 1.5 MiB
MAX_DEPTH = 64
MAX_NODES = 10_000  # aliases count in full: a few lines of them can expand to billions of values
