"""As little of NeMo Gym as its wrapped calls need, under the same names. What it really does, stock Gym shows."""
