"""This machine: its hardware, and a plan as its processes or containers."""
