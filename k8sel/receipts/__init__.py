"""Receipts: what each start wrote in the logs, collected and compared."""
