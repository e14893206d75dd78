"""What the published protocol asks of a server, and a client and a worker that know nothing else."""
