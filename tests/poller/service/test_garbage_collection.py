"""A running poller never looks for garbage among all that lives, which would stop every reading meanwhile."""

import json

from support.running_poller import RunningPoller

PROGRAM = """
import atexit, gc, json

atexit.register(lambda: print(json.dumps({"message": "garbage", "level": "info", "kept": gc.get_freeze_count(),
                                          "long": sum(looks()) - sum(before)})))
from sandgauge_poller import service
from sandgauge_poller.__main__ import main


def looks():
    return [of_generation["collections"] for of_generation in gc.get_stats()[1:]]


before = looks()
run = service.Poller.run


async def run_with_much_that_lives(self, stop):
    lives = []
    stop_waits = stop.wait

    async def wait():
        lives.extend([[number] for number in range(300_000)])
        await stop_waits()

    stop.wait = wait
    await run(self, stop)


service.Poller.run = run_with_much_that_lives
main()
"""


def test_what_was_imported_is_left_alone_and_what_lives_is_not_looked_through(tmp_path):
    poller = RunningPoller(tmp_path, program=("-c", PROGRAM))
    poller.start()
    assert poller.stop() == 0
    (told,) = (json.loads(line) for line in poller.log_file.read_text().splitlines() if '"garbage"' in line)
    assert told["kept"] > 10_000
    assert told["long"] == 0
