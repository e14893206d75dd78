"""The worker: selects, launches, supervises and settles runs."""
