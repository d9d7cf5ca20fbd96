"""The command line: options become one call of the library, results become text."""
