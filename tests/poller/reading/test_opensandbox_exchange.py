import asyncio
import random
import socket
import time

import pytest
from aiohttp import web
from yarl import URL

from sandgauge_poller.config import ClientTls
from sandgauge_poller.reading.clock import SYSTEM_CLOCK
from sandgauge_poller.reading.exchange import Answer, Bounds
from sandgauge_poller.reading.opensandbox.session import open_session
from sandgauge_schemas.names import ErrorType
from sandgauge_schemas.version import __version__
from support.busy_machine import beside_timer
from support.hand_clock import HandClock
from support.http_answers import ANSWERS, HEAD, MAX_BYTES
from support.http_stub import RawServer, StubServer

BOUNDS = Bounds(10.0, MAX_BYTES)
IMPATIENT = Bounds(0.3, MAX_BYTES)


async def get(url: str, bounds: Bounds = BOUNDS, **session: object) -> Answer:
    options = {"clock": SYSTEM_CLOCK, "keepalive_s": 15.0, "headers": {}, **session}
    bounded = open_session(ClientTls(), **options)
    try:
        return await bounded.get(URL(url), bounds, asked=time.monotonic())
    finally:
        await bounded.close()


@pytest.mark.parametrize(("script", "error_type"), ANSWERS)
async def test_every_answer_is_a_value(script, error_type):
    async with RawServer(*script) as server:
        answer = await get(server.url, IMPATIENT if error_type is ErrorType.TIMEOUT else BOUNDS)
    assert answer.error_type is error_type
    assert answer.body == b"" or error_type is None or answer.status != 200


async def test_bytes_at_random_never_raise():
    chance = random.Random(7)
    for _ in range(60):
        noise = chance.randbytes(chance.randrange(1, 200))
        script = noise if chance.random() < 0.3 else HEAD + noise.replace(b"\n", b"\r\n") + b"\r\n\r\n" + noise
        async with RawServer(script) as server:
            assert isinstance(await get(server.url), Answer)


async def test_a_refused_connection_is_an_outcome():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        answer = await get(f"http://127.0.0.1:{unused.getsockname()[1]}/")
    assert answer.error_type is ErrorType.CONNECTION
    assert answer.status is None


async def test_a_name_that_does_not_resolve_is_an_outcome():
    answer = await get("http://no-such-host.invalid/", Bounds(5.0, 1000))
    assert answer.error_type in {ErrorType.CONNECTION, ErrorType.TIMEOUT}


async def test_bytes_that_drip_do_not_prolong_the_bound():
    drip = [step for _ in range(100) for step in (b"x", 0.05)]
    async with RawServer(HEAD + b"Content-Length: 100\r\n\r\n", *drip) as server:
        bounded = open_session(ClientTls(), clock=SYSTEM_CLOCK, keepalive_s=15.0, headers={})
        reading = bounded.get(URL(server.url), Bounds(2.0, 1000), asked=time.monotonic())
        answer, later_s = await beside_timer(2.0, reading)
        await bounded.close()
    assert answer.error_type is ErrorType.TIMEOUT
    assert later_s == pytest.approx(0.0, abs=0.5)
    assert (answer.window.end_ns - answer.window.start_ns) / 1e9 >= 1.99


async def test_the_window_is_the_read_and_the_wait_comes_before_it():
    hand = HandClock()
    began_s = hand.now_s

    async def slow(_request: web.Request) -> web.StreamResponse:
        hand.now_s += 0.1
        return web.Response(text="ok")

    async with StubServer() as server:
        server.on("/", slow)
        bounded = open_session(ClientTls(), clock=hand.clock, keepalive_s=1.0, headers={})
        answer = await bounded.get(URL(server.url), BOUNDS, asked=began_s - 5.0)
        await bounded.close()
    assert answer.window.wait_s == pytest.approx(5.0)
    assert answer.window.start_ns == began_s * 1e9
    assert (answer.window.end_ns - answer.window.start_ns) / 1e9 == pytest.approx(0.1)


async def test_a_cancelled_read_stays_cancelled():
    async with RawServer(10.0) as server:
        task = asyncio.create_task(get(server.url, Bounds(5.0, 1000)))
        await server.connected.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("status", range(300, 309))
@pytest.mark.parametrize("elsewhere", [True, False], ids=["to another origin", "within the origin"])
async def test_no_redirect_is_followed_and_no_cookie_is_kept(status, elsewhere):
    async with StubServer() as server, StubServer() as canary:

        async def redirect(_request: web.Request) -> web.StreamResponse:
            location = f"{(canary if elsewhere else server).url}/elsewhere"
            response = web.Response(status=status, headers={"Location": location})
            response.set_cookie("a", "b")
            return response

        server.on("/", redirect)
        bounded = open_session(ClientTls(), clock=SYSTEM_CLOCK, keepalive_s=15.0, headers={})
        for _ in range(2):
            answer = await bounded.get(URL(server.url), BOUNDS, asked=0.0)
            assert answer.error_type is ErrorType.REDIRECT
        await bounded.close()
    assert (server.paths, canary.paths) == (["/", "/"], [])
    assert all("Cookie" not in request.headers for request in server.seen)


async def test_every_request_says_who_asks_and_asks_for_plain_bytes():
    async with StubServer() as server:
        await get(server.url, headers={"Own": "1"})
    headers = server.seen[0].headers
    assert headers["User-Agent"] == f"sandgauge-poller/{__version__}"
    assert headers["Accept-Encoding"] == "identity"
    assert headers["OpenSandbox-Access-Renew"] == "skip"
    assert headers["Own"] == "1"


@pytest.mark.parametrize("upper", [True, False])
async def test_proxies_and_passwords_of_the_environment_are_not_heeded(monkeypatch, tmp_path, upper):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name if upper else name.lower(), "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY" if upper else "no_proxy", "10.0.0.0/8")
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    async with StubServer() as server:
        server.say("/", text="ok")
        answer = await get(server.url)
    assert answer.body == b"ok"
    assert "Authorization" not in server.seen[0].headers


async def test_more_than_a_hundred_reads_run_at_once():
    together = 150
    async with StubServer() as server:
        arrived = asyncio.Event()

        async def wait_for_all(_request: web.Request) -> web.StreamResponse:
            if len(server.seen) == together:
                arrived.set()
            await arrived.wait()
            return web.Response(text="ok")

        server.on("/", wait_for_all)
        bounded = open_session(ClientTls(), clock=SYSTEM_CLOCK, keepalive_s=15.0, headers={})
        answers = await asyncio.gather(
            *(bounded.get(URL(server.url), Bounds(10.0, 1000), asked=0.0) for _ in range(together))
        )
        await bounded.close()
    assert {answer.error_type for answer in answers} == {None}


def test_an_answer_shows_no_body():
    answer = Answer(window=None, body=b"DATABASE_URL=secret")
    assert "secret" not in repr(answer)


async def test_a_question_whose_connection_breaks_is_not_sent_again():
    async def drop(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with StubServer() as server:
        server.on("/", drop)
        answer = await get(f"{server.url}/")
    assert answer.error_type is ErrorType.CONNECTION
    assert server.paths == ["/"]
