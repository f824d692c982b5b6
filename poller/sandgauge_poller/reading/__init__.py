"""Who is due, one bounded reading, and the providers that are read."""
