"""Receipts, which each start writes to its log: collected and compared."""
