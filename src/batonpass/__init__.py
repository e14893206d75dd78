"""Batonpass: the coordination server and worker for fleets of coding agents."""

__version__ = "0.1.0"
