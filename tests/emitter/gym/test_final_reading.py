"""The reading before deletion: what is asked, of whom, and what a deletion waits for."""

import asyncio
import logging
import socket
import ssl
import threading
import time

import pytest
from aiohttp import web

from sandgauge_demo.loopback import free_ports
from sandgauge_emitter.faults import FAULTS
from sandgauge_emitter.gym import final_reading
from support.busy_machine import OwnTime, beside_timer
from support.certificate import make_certificate, server_context
from support.http_stub import RawServer, StubServer
from support.plain_provider import Handle, Provider, Spec

ENDPOINT, TOKEN = final_reading.ENDPOINT_VARIABLE, final_reading.TOKEN_VARIABLE
PATH = "/v1/sandboxes/fake-1/final-reading"


@pytest.fixture
async def poller(monkeypatch):
    async with StubServer() as server:
        server.say(PATH)
        monkeypatch.setattr(final_reading, "TIMEOUT_S", 60)
        monkeypatch.setenv(ENDPOINT, server.url)
        monkeypatch.setenv(TOKEN, "to=ken")
        yield server


async def started(gym, provider):
    return await gym.api.AsyncSandbox(provider, Spec()).start()


@pytest.mark.parametrize("status", [200, 202])
async def test_the_poller_is_asked_before_the_provider_deletes(gym, poller, caplog, status):
    provider = Provider()

    async def answer(request):
        assert request.method == "POST"
        assert provider.closed == []
        return web.Response(status=status)

    poller.on(PATH, answer)
    await (await started(gym, provider)).stop()
    assert provider.closed == ["fake-1"]
    (seen,) = poller.seen
    assert (seen.path, seen.headers["Authorization"]) == (PATH, "Bearer to=ken")
    assert not caplog.records


@pytest.mark.parametrize(
    ("endpoint", "path"),
    [("http://{}", PATH), ("http://{}/", PATH), ("http://{}/poller/", f"/poller{PATH}"), ("http://a:b@{}", PATH)],
)
async def test_the_endpoint_is_a_base_url(gym, poller, monkeypatch, endpoint, path):
    address = f"127.0.0.1:{poller.port}"
    monkeypatch.setenv(ENDPOINT, endpoint.format(address))
    poller.say(path)
    await (await started(gym, Provider())).stop()
    assert poller.paths == [path]
    assert poller.seen[0].headers["Host"] == address


async def test_an_id_stays_within_its_place_in_the_path(poller):
    await final_reading.before_deletion("a/../b?c")
    assert poller.paths == ["/v1/sandboxes/a%2F..%2Fb%3Fc/final-reading"]


async def test_without_a_token_none_is_sent(gym, poller, monkeypatch):
    monkeypatch.delenv(TOKEN)
    await (await started(gym, Provider())).stop()
    assert "Authorization" not in poller.seen[0].headers


@pytest.mark.parametrize("status", [301, 401, 404, 500, 503])
async def test_a_refusal_is_said_once_a_minute_and_the_deletion_goes_on(gym, poller, caplog, status):
    async def answer(_request):
        return web.Response(status=status, headers={"Location": poller.url})

    poller.on(PATH, answer)
    for _ in range(3):
        provider = Provider()
        await (await started(gym, provider)).stop()
        assert provider.closed == ["fake-1"]
    assert len(poller.seen) == 3, "nothing is followed"
    (record,) = caplog.records
    assert f"answered {status}" in record.getMessage()
    assert record.levelno == logging.WARNING


async def test_a_poller_that_is_down_costs_one_line(gym, monkeypatch, caplog):
    (port,) = free_ports(1)
    monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{port}")
    provider = Provider()
    await (await started(gym, provider)).stop()
    assert provider.closed == ["fake-1"]
    assert "final reading: ConnectionRefusedError" in caplog.text


@pytest.mark.parametrize("answer", [b"", b"220 smtp.example ESMTP\r\n", b"HTTP/1.1 2\r\n", b"x" * 2**17])
async def test_an_answer_that_is_none_costs_one_line(gym, monkeypatch, caplog, answer):
    async with RawServer(answer) as server:
        monkeypatch.setenv(ENDPOINT, server.url)
        await (await started(gym, Provider())).stop()
    (record,) = caplog.records
    assert "final reading: ValueError" in record.getMessage()


async def test_a_late_poller_is_waited_for_no_longer_than_the_bound_and_the_loop_runs_on(gym, monkeypatch, caplog):
    monkeypatch.setattr(final_reading, "TIMEOUT_S", 1.0)
    gaps, done = [], asyncio.Event()

    async def tick():
        with OwnTime() as own:
            last = own.now_s()
            while not done.is_set():
                await asyncio.sleep(0.01)
                gaps.append((now := own.now_s()) - last)
                last = now

    ticking = asyncio.create_task(tick())
    async with RawServer(then_hold=True) as server:
        monkeypatch.setenv(ENDPOINT, server.url)
        provider = Provider()
        sandbox = await started(gym, provider)
        _, later_s = await beside_timer(1.0, sandbox.stop())
    done.set()
    await ticking
    assert provider.closed == ["fake-1"]
    assert 0.0 <= later_s < 0.5
    assert max(gaps) < 0.5
    assert "TimeoutError" in caplog.text


def test_the_bound_is_two_seconds():
    assert final_reading.TIMEOUT_S == 2


@pytest.mark.parametrize("endpoint", ["127.0.0.1:4319", "ftp://c", "http://", "http://c:port", "http://[::1"])
async def test_an_endpoint_that_is_none_is_named_and_not_quoted(gym, monkeypatch, caplog, endpoint):
    monkeypatch.setenv(ENDPOINT, endpoint)
    provider = Provider()
    await (await started(gym, provider)).stop()
    assert provider.closed == ["fake-1"]
    assert endpoint not in caplog.text
    assert len(caplog.records) == 1


async def test_a_token_that_no_header_can_hold_is_not_sent_and_not_printed(gym, poller, monkeypatch, caplog):
    monkeypatch.setenv(TOKEN, "pa55\r\nX-Other: 1")
    await (await started(gym, Provider())).stop()
    assert not poller.seen
    assert len(caplog.records) == 1
    assert "pa55" not in caplog.text


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_certificate_counts_only_if_the_machine_trusts_it(gym, monkeypatch, caplog, tmp_path, trusted):
    certificate = make_certificate(tmp_path)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setattr(final_reading, "_tls", ssl.create_default_context)
    server = StubServer()
    server.say(PATH)
    await server.start(tls=server_context(certificate))
    monkeypatch.setenv(ENDPOINT, f"https://localhost:{server.port}")
    provider = Provider()
    await (await started(gym, provider)).stop()
    await server.stop()
    assert provider.closed == ["fake-1"]
    assert server.paths == ([PATH] if trusted else [])
    assert ("SSLCertVerificationError" in caplog.text) != trusted


async def test_a_borrower_never_asks(gym, poller):
    provider = Provider()
    owner = await started(gym, provider)
    borrower = gym.api.AsyncSandbox(provider)
    borrower.handle = Handle(owner.handle.sandbox_id)
    await borrower.stop()
    assert not poller.seen
    await owner.stop()
    assert len(poller.seen) == 1


async def test_a_deletion_that_failed_asks_again(gym, poller):
    class Failing(Provider):
        failures = 1

        async def close(self, handle):
            if self.failures:
                self.failures -= 1
                raise RuntimeError("not yet")
            await super().close(handle)

    sandbox = await started(gym, Failing())
    with pytest.raises(RuntimeError, match="not yet"):
        await sandbox.stop()
    await sandbox.stop()
    assert len(poller.seen) == 2


class Held:
    """A poller whose answers wait until they are let go."""

    def __init__(self, poller):
        self.asked, self.let_go = asyncio.Event(), asyncio.Event()
        poller.on(PATH, self._answer)

    async def _answer(self, _request):
        self.asked.set()
        await self.let_go.wait()
        return web.Response()


async def test_stops_at_one_time_share_a_reading_and_then_each_calls_the_provider(gym, poller):
    held, provider = Held(poller), Provider()
    sandbox = await started(gym, provider)
    stops = [asyncio.create_task(sandbox.stop())]
    await held.asked.wait()
    stops += [asyncio.create_task(sandbox.stop()) for _ in range(2)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert provider.closed == [], "it would be deleted below its reading"
    held.let_go.set()
    await asyncio.gather(*stops)
    assert provider.closed == ["fake-1"] * 3
    assert len(poller.seen) == 1
    await sandbox.stop()
    assert len(poller.seen) == 2, "a deletion of its own"


async def test_one_who_waits_asks_itself_where_the_first_was_cancelled(gym, poller):
    held, provider = Held(poller), Provider()
    sandbox = await started(gym, provider)
    first = asyncio.create_task(sandbox.stop())
    await held.asked.wait()
    second, third = (asyncio.create_task(sandbox.stop()) for _ in range(2))
    for _ in range(5):
        await asyncio.sleep(0)
    first.cancel()
    third.cancel()
    held.let_go.set()
    await second
    assert await asyncio.gather(first, third, return_exceptions=True) == [IsCancelled(), IsCancelled()]
    assert provider.closed == ["fake-1"]
    assert len(poller.seen) == 2


class IsCancelled:
    def __eq__(self, other):
        return isinstance(other, asyncio.CancelledError)

    __hash__ = None


async def test_a_reading_whose_loop_is_stuck_holds_no_other_up(gym, poller, monkeypatch):
    monkeypatch.setattr(final_reading, "TIMEOUT_S", 0.3)
    provider = Provider()
    sandbox = await started(gym, provider)
    is_read, let_go = threading.Event(), threading.Event()

    async def stuck(_sandbox_id):
        is_read.set()
        let_go.wait(60)

    with monkeypatch.context() as first:
        first.setattr(final_reading, "before_deletion", stuck)
        thread = threading.Thread(target=asyncio.run, args=(sandbox.stop(),))
        thread.start()
        assert await asyncio.to_thread(is_read.wait, 10)
    before = time.monotonic()
    await sandbox.stop()
    assert 0.3 <= time.monotonic() - before < 5
    assert provider.closed == ["fake-1"]
    let_go.set()
    await asyncio.to_thread(thread.join, 10)
    assert provider.closed == ["fake-1"] * 2


async def test_a_provider_that_calls_the_class_it_inherits_from_asks_once(gym, poller):
    class Derived(Provider):
        async def close(self, handle):
            await super().close(handle)

    await (await started(gym, Provider())).stop()
    await (await started(gym, Derived())).stop()
    assert len(poller.seen) == 2


async def test_a_cancelled_stop_is_cancelled(gym, monkeypatch):
    async with RawServer(then_hold=True) as server:
        monkeypatch.setenv(ENDPOINT, server.url)
        sandbox = await started(gym, Provider())
        stop = asyncio.create_task(sandbox.stop())
        await server.connected.wait()
        stop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stop


async def test_without_an_endpoint_close_is_the_providers_own(gym, caplog):
    provider = Provider()
    await (await started(gym, provider)).stop()
    assert provider.closed == ["fake-1"]
    assert not caplog.records


async def test_many_at_once_wait_together(gym, poller, monkeypatch, caplog):
    """They share neither threads nor a queue: the last of two hundred asks although none has its answer yet."""
    monkeypatch.setattr(final_reading, "TIMEOUT_S", 60)
    all_asked = asyncio.Event()

    async def answer_when_all_asked(_request):
        if len(poller.seen) == 200:
            all_asked.set()
        await all_asked.wait()
        return web.Response()

    poller.on(PATH, answer_when_all_asked)
    sandboxes = [await started(gym, Provider()) for _ in range(200)]
    await asyncio.gather(*(sandbox.stop() for sandbox in sandboxes))
    assert len(poller.seen) == 200
    assert not caplog.records
    FAULTS.note("none so far")
    assert "faults since the last such warning: 1" in caplog.text


async def test_a_name_is_looked_up_once_for_all(poller, monkeypatch):
    asked = []

    def getaddrinfo(host, *arguments, **named):
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]

    monkeypatch.setenv(ENDPOINT, f"http://poller.invalid:{poller.port}")
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    await asyncio.gather(*(final_reading.before_deletion("fake-1") for _ in range(20)))
    assert asked == ["poller.invalid"]
    assert poller.paths == [PATH] * 20


async def test_an_address_that_refuses_is_not_the_last_word(poller, monkeypatch):
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("127.0.0.9", "127.0.0.1")]
    monkeypatch.setenv(ENDPOINT, f"http://two.invalid:{poller.port}")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    await final_reading.before_deletion("fake-1")
    assert poller.paths == [PATH]


def test_a_resolver_that_hangs_holds_neither_threads_nor_the_end(monkeypatch):
    released = threading.Event()
    monkeypatch.setenv(ENDPOINT, "http://hangs.invalid:4319")
    ended = threading.Event()

    def hang(*_, **__):
        released.wait(60)
        ended.set()
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", hang)

    async def forty_deletions():
        waiting = [asyncio.create_task(final_reading.before_deletion("fake-1")) for _ in range(40)]
        start = time.monotonic()
        await asyncio.to_thread(time.sleep, 0)
        assert time.monotonic() - start < 1
        assert [type(error) for error in await asyncio.gather(*waiting, return_exceptions=True)] == [TimeoutError] * 40

    start = time.monotonic()
    asyncio.run(forty_deletions())
    assert time.monotonic() - start < 20
    released.set()
    assert ended.wait(60)
