"""One of several pollers on a shared log: what it makes of what it finds there and in its folder."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from sandgauge_poller.ingest.events import StartEvent
from sandgauge_poller.ingest.kafka.membership import Contents
from sandgauge_poller.ingest.kafka.records import EventRecord, ProgressRecord, encode_record
from sandgauge_poller.reading.clock import SYSTEM_CLOCK
from sandgauge_poller.shared_fleet import Parts, SharedFleet, end_within, instance_name
from sandgauge_poller.tracking.active_set import ActiveSet
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.progress import Progress
from sandgauge_poller.tracking.routing import DeploymentNames, Routing
from sandgauge_schemas.records import JoinKeys, StartRecord


@pytest.fixture
def active():
    return ActiveSet(Routing([DeploymentNames("training", "opensandbox", frozenset())]), 10)


@pytest.fixture
def fleet(tmp_path, active):
    database = Database(tmp_path)
    yield SharedFleet(
        SimpleNamespace(),
        Parts(
            database=database,
            active=active,
            tracker=None,
            reading=SimpleNamespace(on_change=lambda change: None),
            recorder=None,
            handed_over=SimpleNamespace(graves={}),
            metrics=None,
            clock=SYSTEM_CLOCK,
        ),
    )
    database.close(60)


def contents(**progress):
    keys = JoinKeys(sandbox_id="s", provider="opensandbox")
    start = StartEvent(trace_id=b"\x01" * 16, span_id=b"\x02" * 8, received_ns=1, record=StartRecord(keys=keys))
    found = Contents(end=2)
    found.put(*encode_record(EventRecord(start)))
    found.put(*encode_record(ProgressRecord("training", "s", 5, json.dumps(progress))))
    return found


@pytest.mark.parametrize(
    ("seen", "readings"),
    [({"readings": 7}, 7), ({"readings": 2**63}, 0), ({"readings": 7, "last_reading_ns": -(2**64)}, 0)],
)
async def test_what_no_store_could_hold_begins_anew(fleet, active, caplog, seen, readings):
    await fleet.take_over(contents(**seen))
    (sandbox,) = active
    assert sandbox.progress.readings == readings
    assert (sandbox.progress == Progress()) == ("begins anew" in caplog.text)


def test_a_folder_has_one_name_for_good_even_where_the_disk_was_full_when_it_got_it(tmp_path):
    (tmp_path / "kafka-instance").touch()
    name = instance_name(tmp_path)
    assert name
    assert instance_name(tmp_path) == name


async def test_a_client_that_cancels_itself_ends_nothing_else(caplog):
    async def end():
        raise asyncio.CancelledError

    await end_within(60, end, "not left")
    assert caplog.messages == ["not left"]


async def test_whoever_is_cancelled_while_a_client_ends_stays_so():
    ending = asyncio.create_task(end_within(60, asyncio.Event().wait, "not left"))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
