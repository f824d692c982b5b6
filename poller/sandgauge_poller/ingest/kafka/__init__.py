"""Kafka as the feed and the memory of several pollers: who owns a partition owns the sandboxes in it."""
