"""OTLP/HTTP in: limits, decoding, and the step from spans to lifecycle events."""
