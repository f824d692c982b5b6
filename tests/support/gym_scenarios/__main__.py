"""Set up the host, then run the program named on the command line; only that one imports Gym."""

import importlib
import sys

from support.gym_scenarios import host

if __name__ == "__main__":  # a worker of a pool imports this module too
    host.set_up()
    importlib.import_module(f"support.gym_scenarios.{sys.argv[1]}").main(*sys.argv[2:])
    host.end()
