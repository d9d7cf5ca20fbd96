"""``python -m k8sel``."""

from k8sel.cli import main

if __name__ == "__main__":
    main()
