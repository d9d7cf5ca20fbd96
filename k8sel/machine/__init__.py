"""This machine: its hardware, and a plan as processes or containers on it."""
