"""The server: settings, services (one transaction per public method), HTTP."""
