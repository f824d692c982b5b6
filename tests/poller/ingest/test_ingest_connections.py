"""The connection itself: TLS, and senders that never finish what they begin."""

import asyncio
import ssl

import aiohttp
import pytest

from sandgauge_poller.ingest import body, server
from sandgauge_schemas import names
from support.certificate import make_certificate, server_context
from support.otlp_json import from_resource, span, traces

TOKEN = "t0ken-of-the-ingest-port"
REQUEST = traces(from_resource({}, span(names.SPAN_GYM_SANDBOX_START, {names.NEMO_GYM_SANDBOX_ID: "s-1"})))
HEAD = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"))


async def post_over_tls(ingest, client: ssl.SSLContext | bool, token: str | None = TOKEN) -> int:
    url = f"https://localhost:{ingest.address[1]}/v1/traces"
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with ingest.http.post(url, json=REQUEST, headers=headers, ssl=client) as answer:
        return answer.status


async def test_over_tls_spans_are_taken_from_whoever_shows_the_token(start_ingest, certificate, silent_log):
    ingest = await start_ingest(tls=server_context(certificate), bearer_token=TOKEN)
    client = ssl.create_default_context(cafile=certificate)
    assert await post_over_tls(ingest, client) == 200
    assert await post_over_tls(ingest, client, token=None) == 401
    assert await post_over_tls(ingest, client, token="wrong") == 401
    assert ingest.sandbox_ids == ["s-1"]


async def test_a_sender_that_checks_the_certificate_finds_it_wanting_until_it_is_trusted(
    start_ingest, certificate, silent_log
):
    ingest = await start_ingest(tls=server_context(certificate), bearer_token=TOKEN)
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await post_over_tls(ingest, True)
    assert ingest.events == []


async def test_on_a_port_with_tls_plain_http_is_not_answered(start_ingest, certificate, silent_log):
    ingest = await start_ingest(tls=server_context(certificate), bearer_token=TOKEN)
    with pytest.raises((aiohttp.ClientError, ConnectionError)):
        await ingest.post_json(REQUEST, Authorization=f"Bearer {TOKEN}")
    assert ingest.events == []
    assert await post_over_tls(ingest, ssl.create_default_context(cafile=certificate)) == 200


@pytest.mark.parametrize("begun", [b"", b"POST", HEAD, HEAD + b"X-A: 1\r\n"], ids=["nothing", "a word", "half", "more"])
async def test_a_head_that_never_ends_is_given_up(start_ingest, monkeypatch, silent_log, begun):
    monkeypatch.setattr(server, "IDLE_S", 1.5)
    ingest = await start_ingest()
    streams = [await asyncio.open_connection(*ingest.address) for _ in range(50)]
    for _, writer in streams:
        writer.write(begun)
    for reader, writer in streams:
        async with asyncio.timeout(20):
            await reader.read()  # returns when the server has closed the connection
        writer.close()
    assert (await ingest.post_json(REQUEST)).status == 200


async def test_a_chunked_body_without_end_is_given_up(start_ingest, monkeypatch, silent_log):
    monkeypatch.setattr(body, "READ_TIMEOUT_S", 0.3)
    ingest = await start_ingest()
    reader, writer = await asyncio.open_connection(*ingest.address)
    writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")

    async def drip():
        while True:
            writer.write(b"1\r\n \r\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    dripping = asyncio.create_task(drip())
    async with asyncio.timeout(60):
        assert b" 503 " in await reader.readline()
    dripping.cancel()
    writer.close()
    assert ingest.events == []


async def test_large_bodies_that_have_no_room_are_asked_to_come_again(start_ingest, monkeypatch, silent_log):
    """Each of them is within its own limit."""
    limit = 100_000
    monkeypatch.setattr(body, "READ_TIMEOUT_S", 600.0)  # whose answer would be the same
    ingest = await start_ingest(max_body_size=limit)
    streams = [await asyncio.open_connection(*ingest.address) for _ in range(5)]
    for _, writer in streams:
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % limit + b" " * (limit - 1))
    async with asyncio.timeout(60):
        done, waiting = await asyncio.wait(
            [asyncio.create_task(reader.readline()) for reader, _ in streams], return_when=asyncio.FIRST_COMPLETED
        )
    assert {line.result().split()[1] for line in done} == {b"503"}
    assert len(done) + len(waiting) == len(streams)
    for task in waiting:
        task.cancel()
    for _, writer in streams:
        writer.close()
    await asyncio.gather(*waiting, return_exceptions=True)
    async with asyncio.timeout(60):
        while (await ingest.post(b" " * (limit - 2) + b"{}")).status == 503:  # noqa: ASYNC110  # until they have left
            await asyncio.sleep(0.05)
