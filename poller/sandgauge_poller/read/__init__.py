"""One sandbox, read once and now, beside whatever poller runs."""
