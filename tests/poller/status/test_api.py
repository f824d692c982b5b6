"""The JSON as anybody may ask for it, over invented sandboxes and a store of its own."""

import time

import pytest

from support.direct_session import direct_session
from support.shown_fleet import EVALUATION, TRAINING, ShownFleet

COUNT = 300


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with ShownFleet(tmp_path_factory.mktemp("fleet"), COUNT) as served:
        yield served


def get(fleet, path, status=200, **query):
    with direct_session() as session:
        answer = session.get(f"{fleet.url}/api/v1/{path}", params=query, timeout=60)
    assert answer.status_code == status
    assert status != 200 or answer.headers["Cache-Control"] == "no-store"
    return answer.json()


def test_the_overview_counts_everybody_once(fleet):
    overview = get(fleet, "overview")
    sandboxes = overview["sandboxes"]
    assert sandboxes["total"] == COUNT == sum(sandboxes["by_state"].values())
    by_deployment = [deployment["sandboxes"]["total"] for deployment in overview["deployments"]]
    assert sum(by_deployment) == COUNT - sandboxes["by_state"]["unmatched"]
    assert [deployment["name"] for deployment in overview["deployments"]] == [TRAINING, EVALUATION]
    assert len(overview["leaks"]) == sandboxes["leaked"] > 0
    assert all(leak["leaked"] for leak in overview["leaks"])
    assert overview["readiness"] == {"ready": True, "store": True, "ingest": True}
    assert set(overview["outbox"]) == {"traces", "metrics"}
    assert len(overview["readings"]["answered"]) == 60
    assert overview["started_at"] <= overview["now"] <= time.time()


def test_pages_make_up_the_whole_without_repeats(fleet):
    pages = [get(fleet, "sandboxes", sort="sandbox", offset=offset, limit=70) for offset in range(0, COUNT, 70)]
    assert {page["matched"] for page in pages} == {COUNT}
    ids = [row["sandbox_id"] for page in pages for row in page["sandboxes"]]
    assert len(ids) == len(set(ids)) == COUNT
    assert get(fleet, "sandboxes", offset=COUNT)["sandboxes"] == []
    assert get(fleet, "sandboxes", limit=0)["matched"] == COUNT


def test_what_is_listed_is_what_was_asked_for(fleet):
    found = get(fleet, "sandboxes", show="leaked", deployment=EVALUATION)
    assert found["matched"] == len(found["sandboxes"])
    assert {(row["leaked"], row["deployment"]) for row in found["sandboxes"]} <= {(True, EVALUATION)}
    used = [row["reading"]["memory_used_mib"] for row in get(fleet, "sandboxes", q="12-")["sandboxes"] if "plot" in row]
    assert used


def test_a_query_for_what_there_is_not_is_answered_400_with_the_cure(fleet):
    assert get(fleet, "sandboxes", 400, sort="colour")["error"].startswith("sort: must be one of")


def test_one_sandbox_is_told_with_all_that_is_known(fleet):
    (row,) = get(fleet, "sandboxes", show="leaked", limit=1)["sandboxes"]
    (chosen,) = get(fleet, f"sandboxes/{row['sandbox_id']}")["sandboxes"]
    assert chosen["sandbox_id"] == row["sandbox_id"]
    assert chosen["requested"]["disk_gib"] == 10
    assert chosen["submitted"]["limits"]["disk_gib"] == 10.0
    assert chosen["allocation"]["designator"]["kind"] == "kubernetes"
    # The hour moves on, and begins with its first reading: a few minutes had none.
    assert 56 <= len(chosen["plot"]["memory_used_mib"]) <= 60
    assert len(chosen["trace_id"]) == 32


@pytest.mark.parametrize("sandbox_id", ["nobody", "..", "%2e%2e", "a%2fb", "x" * 300])
def test_a_sandbox_that_is_not_followed_is_answered_404(fleet, sandbox_id):
    with direct_session() as session:
        assert session.get(f"{fleet.url}/api/v1/sandboxes/{sandbox_id}", timeout=60).status_code == 404


def test_a_long_answer_comes_compressed_to_whoever_takes_it(fleet):
    with direct_session() as session:
        plain = session.get(f"{fleet.url}/api/v1/sandboxes", headers={"Accept-Encoding": "identity"}, timeout=60)
        packed = session.get(f"{fleet.url}/api/v1/sandboxes", headers={"Accept-Encoding": "gzip"}, timeout=60)
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert int(packed.headers["Content-Length"]) * 3 < len(plain.content)
