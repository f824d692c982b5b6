"""What the poller's own metrics are told when they look."""

import sqlite3
from types import SimpleNamespace

import pytest

from sandgauge_poller.status.observation import Observation
from sandgauge_poller.tracking.store_file import StateError
from sandgauge_schemas.names import SandboxState


def test_sandboxes_that_are_no_more_are_counted_as_none_and_not_left_out():
    context = SimpleNamespace(providers={"training": None}, state=lambda sandbox: sandbox.state)
    active = [SimpleNamespace(deployment="training", state=SandboxState.ACTIVE)]
    observation = Observation(active, context, None, lambda: 0)
    counts = observation.sandboxes()
    assert counts["training", SandboxState.ACTIVE] == 1
    active.clear()
    assert observation.sandboxes() == {
        ("training", SandboxState.ACTIVE): 0,
        ("training", SandboxState.PAUSED): 0,
        ("training", SandboxState.ENDING): 0,
        ("training", SandboxState.NOT_READ): 0,
        (None, SandboxState.UNMATCHED): 0,
        (None, SandboxState.NOT_READ): 0,
    }


@pytest.mark.parametrize("error", [StateError("sandgauge.db: damaged"), sqlite3.OperationalError("disk I/O error")])
def test_of_a_store_that_cannot_be_read_nothing_is_told_but_why(error, caplog):
    def read(_):
        raise error

    observation = Observation([], SimpleNamespace(providers={}), SimpleNamespace(read=read), lambda: 0)
    assert observation.outbox() == {}
    (record,) = caplog.records
    assert record.getMessage() == f"what waits in the outbox is unknown: {error}"
    assert record.exc_info is None
