"""Dispatch: from a claimed item to a running child, and its record on disk."""
