"""Whose a container is: told by whole ids and labels, never by what Docker would find."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.reading.docker.identity import Index, ListedContainer, parse_list
from sandgauge_poller.reading.usage.source import UsageTarget
from sandgauge_schemas.placement import Identity

A = "3f4e1c09ab27" + "0" * 52
TWIN = "3f4e1c09ab27" + "1" * 52
B = "9c0d5e7f1a2b" + "0" * 52


def listed(id_, sandbox_id="s-1", state="running", **more):
    labels = {} if sandbox_id is None else {"opensandbox.io/id": sandbox_id}
    return {"Id": id_, "Names": [f"/sandbox-{sandbox_id}"], "Labels": labels, "State": state, "Created": 17, **more}


def find(entries, designator_id=A[:12], sandbox_id="s-1"):
    index = Index(parse_list(json.dumps(entries).encode()))
    found = index.find(UsageTarget(sandbox_id, Identity("docker-container", "http://osb", designator_id)))
    return found and found.id


@pytest.mark.parametrize(
    ("entries", "designator_id", "expected"),
    [
        ([listed(A), listed(B, "s-2")], A[:12], A),
        ([listed(A)], A, A),
        ([listed(A)], A[:20], A),
        ([listed(B)], A[:12], None),
        # two with the same digits: the label tells which, and without one nobody does
        ([listed(A, "s-2"), listed(TWIN, "s-1")], A[:12], TWIN),
        ([listed(A, "s-1"), listed(TWIN, None)], A[:12], A),
        ([listed(A, "s-1"), listed(TWIN, "s-1")], A[:12], None),
        ([listed(A, None), listed(TWIN, None)], A[:12], None),
        ([listed(A, None)], A[:12], A),
        # a container of another sandbox, whatever its digits and its name
        ([listed(A, "s-2")], A[:12], None),
        ([listed(B, "s-2", Names=[f"/{A[:12]}"])], A[:12], None),
        # no digits that a control plane would show
        ([listed(A)], A[:11], None),
        ([listed(A)], "sandbox-s-1", None),
        ([listed(A)], "", None),
    ],
)
def test_a_sandbox_has_one_container_or_none(entries, designator_id, expected):
    assert find(entries, designator_id) == expected


@pytest.mark.parametrize(
    ("state", "is_running"),
    [("running", True), ("paused", True), ("exited", False), ("dead", False), (None, False), ([], False)],
)
def test_whether_it_runs_is_in_the_list_too(state, is_running):
    (found,) = parse_list(json.dumps([listed(A, state=state)]).encode())
    assert found == ListedContainer(id=A, sandbox_id="s-1", is_running=is_running, created_ns=17 * 10**9)


@pytest.mark.parametrize(
    "entry",
    [None, "text", {}, {"Id": 7}, {"Id": A.upper()}, {"Id": A[:12]}, {"Id": f"{A}\n"}],
)
def test_an_entry_that_is_no_container_is_left_out(entry):
    assert [found.id for found in parse_list(json.dumps([entry, listed(B)]).encode())] == [B]


def test_labels_may_have_the_names_of_what_docker_tells_itself():
    labels = {"opensandbox.io/id": "s-1", "Id": B, "Labels": "x", "State": "exited"}
    (found,) = parse_list(json.dumps([listed(A, Labels=labels)]).encode())
    assert (found.id, found.sandbox_id, found.is_running) == (A, "s-1", True)


def test_a_long_list_takes_little_more_memory_than_its_text():
    networks = {"Networks": {f"network-{at}": {"IPAddress": "172.17.0.2"} for at in range(20)}}
    body = json.dumps([listed(f"{at:064x}", NetworkSettings=networks) for at in range(2_000)]).encode()
    tracemalloc.start()
    try:
        assert len(parse_list(body)) == 2_000
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2 * len(body)


def test_labels_of_any_kind_are_no_error():
    entries = [listed(A, Labels=None), listed(B, Labels=[1], Created="x")]
    assert [found.sandbox_id for found in parse_list(json.dumps(entries).encode())] == [None, None]


@pytest.mark.parametrize("body", [b"", b"{}", b"null", b'"x"', b"[" * 10_000])
def test_what_is_no_list_is_none(body):
    assert parse_list(body) is None


@given(st.lists(st.sampled_from([A, TWIN, B]), unique=True), st.integers(12, 64))
def test_digits_of_one_container_alone_find_it(ids, length):
    meant = [id_ for id_ in ids if id_.startswith(A[:length])]
    assert find([listed(id_, None) for id_ in ids], A[:length]) == (meant[0] if len(meant) == 1 else None)
