"""The command line: it turns options into one call of the library, and results into text."""
