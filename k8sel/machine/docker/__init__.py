"""Runs a plan as containers on this machine. Only this package imports docker."""
