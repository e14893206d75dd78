"""HTTP: the route table, bodies, authentication, and the one error shape."""
