"""The client: typed calls, one sender, heartbeat, leases and tasks as context managers, agents as a loop."""
