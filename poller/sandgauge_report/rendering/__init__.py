"""One report in several forms: a table for a terminal, JSON, CSV, and a page of HTML."""
