"""Services: where a transaction begins and ends, and where permission is decided."""
