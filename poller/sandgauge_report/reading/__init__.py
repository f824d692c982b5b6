"""Files in, spans out: one line at a time, whatever the shape, and what cannot be read named and counted."""
