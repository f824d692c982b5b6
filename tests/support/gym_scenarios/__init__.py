"""What users of stock NeMo Gym do with sandboxes, as programs that run in its environment.

`python -m support.gym_scenarios run NAME…` runs scenarios one after another and prints for each a line of JSON: what
its caller saw. Which telemetry is there, `host` reads from the environment.
"""
