"""Results as tables, JSON and lines of text."""
