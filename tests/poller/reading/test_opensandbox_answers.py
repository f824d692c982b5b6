import json
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.reading.opensandbox.answers import error_code, is_not_found, parse_status
from sandgauge_poller.reading.provider import SandboxState


def sandbox(state: object = "Running", **more: object) -> bytes:
    return json.dumps({"id": "q8", "status": {"state": state}, **more}).encode()


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ("Pending", SandboxState.PENDING),
        ("Allocated", SandboxState.PENDING),
        ("Running", SandboxState.RUNNING),
        ("Pausing", SandboxState.PAUSED),
        ("Paused", SandboxState.PAUSED),
        ("Resuming", SandboxState.PAUSED),
        ("Stopping", SandboxState.STOPPING),
        ("Terminated", SandboxState.TERMINATED),
        ("Failed", SandboxState.FAILED),
        ("Unknown", SandboxState.UNKNOWN),
        ("Hibernating", SandboxState.UNKNOWN),
        ("running", SandboxState.UNKNOWN),
    ],
)
def test_states(told, state):
    assert parse_status(sandbox(told)) == (state, None)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("2026-11-30T07:52:42.210212Z", 1796025162_210212_000),
        ("2026-11-30T07:52:42.210212+00:00", 1796025162_210212_000),
        ("2026-11-30T08:52:42+01:00", 1796025162_000000_000),
        ("2026-11-30T07:52:42.210212999Z", 1796025162_210212_000),
        ("1970-01-01T00:00:00Z", 0),
        ("0001-01-01T00:00:00+14:00", -62135596800_000000_000 - 14 * 3600 * 10**9),
        # no zone, no time, no text: absent
        ("2026-11-30T07:52:42", None),
        ("soon", None),
        ("", None),
        (1796025162, None),
        (None, None),
    ],
)
def test_expiry(text, nanoseconds):
    assert parse_status(sandbox(expiresAt=text)) == (SandboxState.RUNNING, nanoseconds)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"status":"Running"}',
        b'{"status":{"state":7}}',
        b"<html>",
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_other_formats_have_no_state(body):
    assert parse_status(body) is None


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (404, b'{"code":"DOCKER::SANDBOX_NOT_FOUND","message":"Sandbox 3bd31741 not found."}', True),
        (404, b'{"code":"KUBERNETES::SANDBOX_NOT_FOUND","message":"x"}', True),
        (404, b'{"code":"FSB::SANDBOX_NOT_FOUND"}', True),
        (404, b'{"detail":"Not Found"}', False),
        (404, b"404 page not found", False),
        (404, b'{"code":"KUBERNETES::POD_IP_NOT_AVAILABLE","message":"x"}', False),
        (404, b'{"code":"KUBERNETES::POOL_NOT_FOUND"}', False),
        (404, b'{"code":["::SANDBOX_NOT_FOUND"]}', False),
        (404, b"", False),
        (410, b'{"code":"DOCKER::SANDBOX_NOT_FOUND"}', False),
        (200, b'{"code":"DOCKER::SANDBOX_NOT_FOUND"}', False),
        (None, b"", False),
    ],
)
def test_only_the_control_planes_own_words_mean_not_found(status, body, told):
    assert is_not_found(status, body) is told


@given(
    st.one_of(
        st.binary(),
        st.recursive(st.none() | st.text() | st.integers() | st.floats(), st.lists).map(
            lambda value: json.dumps({"status": value, "code": value, "expiresAt": value}).encode()
        ),
    )
)
def test_no_body_raises(body):
    parse_status(body)
    error_code(body)


@given(st.datetimes(timezones=st.timezones()))
def test_every_time_with_an_offset_is_exact(moment: datetime):
    state, nanoseconds = parse_status(sandbox(expiresAt=moment.isoformat())) or (None, None)
    assert state is SandboxState.RUNNING
    if nanoseconds is not None:
        assert nanoseconds % 1000 == 0
