"""Records to OTLP messages, the outbox, and delivery to the Collector."""
