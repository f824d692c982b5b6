"""Health of the poller for people and probes."""
