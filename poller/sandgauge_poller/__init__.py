"""The poller: from lifecycle spans to correlated allocation, sample and summary records."""
