"""Ten thousand bodies that nobody sends on purpose, in front of a whole poller."""

from itertools import chain

import psutil
import pytest

from support.feed import feed, start_span
from support.fuzz_run import peak_memory, send_all
from support.fuzzed_bodies import LIMIT, fuzzed_bodies, hurting_bodies
from support.running_poller import RunningPoller

pytestmark = pytest.mark.load

BODIES = 10_000
MEMORY = 4 * LIMIT + 350 * 2**20
"""What docs/configuration.md promises for the default limit of a body."""

HELD_S = 1.0
"""The longest that anything waits for a poller whatever bodies it is sent, and what one takes."""
BUSY = 4
"""What others on the machine may make of a second that the clock shows."""
SLOW = 2
"""What a slower processor may make of a second of its own time."""


@pytest.fixture
def poller(tmp_path):
    with RunningPoller(tmp_path, {"tracking": {"max_sandboxes": 1000}}) as running:
        yield running


async def test_no_body_whatever_gets_a_wrong_answer_or_leaves_a_trace(poller):
    before = peak_memory(poller.pid)
    # The ones that are made to hurt come in the middle of the others, all at once.
    first, rest = fuzzed_bodies(BODIES // 2, seed=1), fuzzed_bodies(BODIES // 2, seed=2)
    findings = await send_all(poller, chain(first, hurting_bodies(), rest))
    assert findings.wrong == []
    assert set(findings.statuses) == {200, 400, 413}
    assert findings.statuses.total() >= BODIES
    assert peak_memory(poller.pid) - before < 1.1 * MEMORY
    assert findings.held_s < BUSY * HELD_S
    assert poller.complaints() == []
    feed(poller.endpoint, start_span("after-all"))


async def test_no_body_whatever_takes_a_second_of_the_processor(tmp_path):
    took_s = {}
    with RunningPoller(tmp_path) as poller:
        process = psutil.Process(poller.pid)
        for body in hurting_bodies():
            before = process.cpu_times()
            findings = await send_all(poller, [body], senders=1)
            after = process.cpu_times()
            assert findings.wrong == []
            took_s[body.kind, body.content_type] = after.user + after.system - before.user - before.system
    print("\n".join(f"{seconds:.2f} s  {kind}" for (kind, _), seconds in took_s.items()))
    assert {kind: seconds for kind, seconds in took_s.items() if seconds > SLOW * HELD_S} == {}
