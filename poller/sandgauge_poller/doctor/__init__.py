"""The doctor: looks at each dependency of a poller once, and says what is wrong and how to cure it."""
