"""The active set: a pure fold of lifecycle events, and its SQLite store."""
