"""The client: typed calls, one sender, heartbeat, leases as context managers."""
