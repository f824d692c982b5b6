"""Docker's Engine API: its containers as sandboxes, and the usage of containers."""
