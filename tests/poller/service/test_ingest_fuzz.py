"""Ten thousand bodies that nobody sends on purpose, in front of a whole poller."""

from itertools import chain

import pytest

from support.feed import feed, start_span
from support.fuzz_run import peak_memory, send_all
from support.fuzzed_bodies import LIMIT, fuzzed_bodies, hurting_bodies
from support.running_poller import RunningPoller

pytestmark = pytest.mark.load

BODIES = 10_000
MEMORY = 4 * LIMIT + 350 * 2**20
"""What docs/configuration.md promises for the default limit of a body."""


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
    # Under a second where the processor is not shared: what is larger than a breath is understood by a thread.
    assert findings.held_s < 10
    assert poller.complaints() == []
    feed(poller.endpoint, start_span("after-all"))
