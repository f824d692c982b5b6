"""What stands in the topics that pollers share."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.ingest.events import RequestEvent, RolloutEvent, StartEvent, StopEvent
from sandgauge_poller.ingest.kafka.membership import Contents
from sandgauge_poller.ingest.kafka.records import (
    DoneRecord,
    EventRecord,
    ProgressRecord,
    UnreadableRecordError,
    decode_record,
    done_key,
    encode_record,
    event_key,
    progress_key,
    sandbox_of,
)
from sandgauge_poller.ingest.kafka.topics import Share, Topics
from sandgauge_schemas.records import JoinKeys, RequestRecord, StartRecord
from support.event_strategies import any_events

SPAN = {"trace_id": b"\x01" * 16, "span_id": b"\x02" * 8, "received_ns": 7}
START = StartEvent(**SPAN, start_ns=1, record=StartRecord(keys=JoinKeys(sandbox_id="s", request_id="a/b")))
STOP = StopEvent(**SPAN, keys=JoinKeys(sandbox_id="s"), failed=True)
REQUEST = RequestEvent(**SPAN, record=RequestRecord(keys=JoinKeys(request_id="a/b")))
ROLLOUT = RolloutEvent(**SPAN, keys=JoinKeys(rollout_id="r"))
IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)


@given(any_events)
def test_an_event_is_read_back(event):
    assert decode_record(*encode_record(EventRecord(event))) == EventRecord(event)


@given(st.text(max_size=20), IDS, st.integers(0, 2**63 - 1), st.text())
def test_what_was_seen_is_read_back_whoever_owns_the_sandbox(owner, sandbox_id, at_ns, progress):
    for record in (ProgressRecord(owner, sandbox_id, at_ns, progress), DoneRecord(owner, sandbox_id, at_ns)):
        assert decode_record(*encode_record(record)) == record


def test_the_keys_are_the_same_in_every_release():
    assert event_key(b"\x01" * 16, b"\x02" * 8) == b"event/" + b"01" * 16 + b"/" + b"02" * 8
    assert progress_key("training", "s") == b"progress/s/training"
    assert done_key("provider:opensandbox", "s") == b"done/s/provider:opensandbox"
    assert encode_record(DoneRecord("training", "s", 5)) == (b"done/s/training", b'{"at_ns":5}')


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b"{}"),
        (b"other/a/b", b"{}"),
        (b"event/zz/00", b"{}"),
        (b"done/s/o", b"nonsense"),
        (b"done/s/o", b"[]"),
        (b"progress/s/o", b'{"updated_ns":"later"}'),
        (b"event/" + b"01" * 16 + b"/" + b"02" * 8, b'{"kind":"start","received_ns":1,"body":"{}"}'),
        (b"\xff/a/b", b"{}"),
        (b"done/s/o", b"[" * 100_000),
        (b"done/s/o", b'{"at_ns":1e999}'),
        (b"done/s/o", b'{"at_ns":9223372036854775808}'),
        (b"done/../o", b'{"at_ns":1}'),
        (b"progress/a b/o", b'{"updated_ns":1,"progress":"{}"}'),
    ],
)
def test_what_is_no_record_is_told_apart(key, value):
    with pytest.raises(UnreadableRecordError):
        decode_record(key, value)


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"start": "soon"},
        {"start": -1},
        {"end": 2**63},
        {"attributes": []},
        {"attributes": None},
        {"attributes": {}},
        {"attributes": {"nemo.gym.sandbox.id": "../../v1/sandboxes"}},
        {"attributes": {"nemo.gym.sandbox.id": "s", "nemo.gym.rollout.id": "\ud800"}},
    ],
)
def test_an_event_that_no_span_would_have_made_is_told_apart(body):
    sound = {"start": 1, "end": 2, "attributes": {"nemo.gym.sandbox.id": "s"}}

    def decoded(body, span=(b"\x01" * 16, b"\x02" * 8)):
        value = {"kind": "start", "received_ns": 1, "body": json.dumps(body)}
        return decode_record(event_key(*span), json.dumps(value).encode())

    assert decoded(sound).event.record.keys.sandbox_id == "s"
    with pytest.raises(UnreadableRecordError):
        decoded({**sound, **body} if body else body)
    with pytest.raises(UnreadableRecordError):
        decoded(sound, (b"\x01", b"\x02"))


@given(st.binary(max_size=40), st.binary(max_size=200))
def test_bytes_at_random_are_no_record(key, value):
    with pytest.raises(UnreadableRecordError):
        decode_record(key, value)


def test_only_starts_and_stops_are_about_a_sandbox():
    assert [sandbox_of(event) for event in (START, STOP, REQUEST, ROLLOUT)] == ["s", "s", None, None]


def test_a_partition_is_its_last_words():
    contents = Contents(end=9)
    records = [EventRecord(START), DoneRecord("o", "s", 1), ProgressRecord("o", "s", 1, "{}")]
    records += [ProgressRecord("o", "s", 2, '{"readings":1}')]
    for record in records:
        contents.put(*encode_record(record))
    contents.put(b"other/a/b", b"{}")
    contents.put(*encode_record(ProgressRecord("o", "s", 1, "held up on its way")))
    assert (contents.events, contents.done, contents.progress) == ([START], [records[1]], [records[3]])
    contents.put(done_key("o", "s"), None)
    contents.put(event_key(START.trace_id, START.span_id), None)
    assert (contents.events, contents.done, contents.progress) == ([], [], [records[3]])


def test_a_sandbox_is_in_the_same_partition_in_every_release():
    topics = Topics("lifecycle", "sandboxes", "inventory", 32)
    assert [topics.partition_of(f"sandbox-{number}") for number in range(4)] == [31, 17, 9, 31]
    share = Share(topics, {topics.partition_of("sandbox-0")})
    assert share.owns("sandbox-0")
    assert not share.owns("sandbox-1")
