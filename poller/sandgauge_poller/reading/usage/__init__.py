"""Usage of sandboxes themselves, from sources beside execd that see each one by its designator."""
