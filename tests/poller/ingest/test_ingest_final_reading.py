"""How a wish for the reading before deletion is answered: only when it is recorded, at once, or in time anyway."""

import asyncio
import json

import pytest

from sandgauge_poller.ingest import final_reading
from sandgauge_poller.ingest.final_reading import FinalReading
from support.busy_machine import beside_timer


async def test_the_answer_comes_only_after_the_reading(ingest):
    ingest.reader.open.clear()
    asked = asyncio.create_task(ingest.post_final_reading("sbx-1.a_b"))
    done, _ = await asyncio.wait([asked], timeout=0.2)
    assert not done
    ingest.reader.open.set()
    answer = await asked
    assert (answer.status, json.loads(answer.body)) == (200, {"outcome": "recorded"})
    assert ingest.reader.asked == ["sbx-1.a_b"]


async def test_a_sandbox_that_is_not_read_is_answered_202(ingest):
    ingest.reader.outcome = FinalReading.NOT_READ
    answer = await ingest.post_final_reading()
    assert (answer.status, json.loads(answer.body)) == (202, {"outcome": "not_read"})


async def test_a_reading_that_hangs_is_answered_within_two_seconds(ingest, silent_log):
    ingest.reader.open.clear()
    assert final_reading.ANSWER_WITHIN_S < 2
    answer, later_s = await beside_timer(final_reading.ANSWER_WITHIN_S, ingest.post_final_reading())
    assert 0.0 <= later_s < 0.5
    assert answer.status == 503
    assert "longer than a deletion waits" in json.loads(answer.body)["message"]


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer wrong", "Basic c2VjcmV0", "secret"])
async def test_without_the_token_nothing_is_read(start_ingest, silent_log, authorization):
    ingest = await start_ingest(bearer_token="secret")
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = await ingest.post_final_reading(**headers)
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert ingest.reader.asked == []


async def test_with_the_token_it_is_read(start_ingest):
    ingest = await start_ingest(bearer_token="secret")
    assert (await ingest.post_final_reading(Authorization="Bearer secret")).status == 200


@pytest.mark.parametrize(
    ("sandbox_id", "status"),
    [
        ("x" * 128, 200),
        ("x" * 129, 400),
        ("-x", 400),
        ("a%2Fb", 400),
        ("a%0A", 400),
        ("%C3%A9", 400),
        ("%73-1", 200),
        ("a/b", 404),
        ("", 404),
    ],
)
async def test_only_what_can_be_a_sandbox_id_is_one(ingest, silent_log, sandbox_id, status):
    assert (await ingest.post_final_reading(sandbox_id)).status == status
    assert len(ingest.reader.asked) == (status == 200)


async def test_a_body_is_not_looked_at(start_ingest, silent_log):
    ingest = await start_ingest(max_body_size=1000)
    for body in (b'{"why": "deleted"}', b"\xff" * 100_000):
        assert (await ingest.post_final_reading(body=body)).status == 200


async def test_a_fault_is_no_reading_and_the_next_one_works(ingest, caplog):
    ingest.reader.error = OSError("disk")
    assert (await ingest.post_final_reading()).status == 503
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    ingest.reader.error = None
    assert (await ingest.post_final_reading()).status == 200


async def test_more_than_can_wait_are_answered_at_once_and_spans_do_not_suffer(ingest, monkeypatch, silent_log):
    monkeypatch.setattr(final_reading, "MOST_AT_ONCE", 3)
    ingest.reader.open.clear()
    waiting = [asyncio.create_task(ingest.post_final_reading(f"s-{number}")) for number in range(3)]
    for _ in waiting:
        await ingest.reader.entered.acquire()
    assert (await ingest.post_final_reading()).status == 503
    assert (await ingest.post_json({})).status == 200
    ingest.reader.open.set()
    assert {(await asked).status for asked in waiting} == {200}
    assert (await ingest.post_final_reading()).status == 200


async def test_it_is_asked_for_by_post_alone(ingest):
    async with ingest.http.get("http://{}:{}/v1/sandboxes/s-1/final-reading".format(*ingest.address)) as answer:
        assert answer.status == 405
