"""What Sandgauge costs, measured: `make bench` and its kin."""
