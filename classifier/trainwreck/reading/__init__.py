"""Anything that holds a log → lines with number, rank, host and time."""
