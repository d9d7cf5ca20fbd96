"""Turns text into a checked job: reads, decodes, defaults and validates it. Contacts no machine and no cluster."""
