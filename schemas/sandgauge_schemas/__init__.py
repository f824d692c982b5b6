"""The telemetry contract: names, quantities and records that emitter and poller share."""
