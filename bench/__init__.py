"""Measurements beside the machine's own limit, taken in the same run. `python -m bench` runs all of them."""
