"""A running poller hardly ever looks through all that lives for garbage, which stops every reading meanwhile."""

import json

from support.running_poller import RunningPoller

PROGRAM = """
import atexit, gc, json

atexit.register(lambda: print(json.dumps({"message": "garbage", "level": "info", "kept": gc.get_freeze_count(),
                                          "full": gc.get_stats()[2]["collections"] - before})))
from sandgauge_poller import service
from sandgauge_poller.__main__ import main

before = gc.get_stats()[2]["collections"]
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
    assert told["full"] == 0
