"""A simulated OpenSandbox deployment and a Gym-like run, for the demo, the tests and the benchmark."""
