"""Framework-neutral emitter of sandbox request and start spans."""
