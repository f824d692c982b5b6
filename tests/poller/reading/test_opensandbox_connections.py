"""Direct connections: what a daemon's side of one may do, and when one is used again."""

import asyncio
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web

from sandgauge_demo.loopback import free_ports
from sandgauge_poller.config import ClientTls
from sandgauge_poller.reading.clock import SYSTEM_CLOCK
from sandgauge_poller.reading.exchange import Bounds
from sandgauge_poller.reading.opensandbox import direct
from sandgauge_poller.reading.opensandbox.connection import Origin
from sandgauge_poller.reading.opensandbox.direct import DirectConnections
from sandgauge_poller.reading.opensandbox.endpoints import Target
from sandgauge_poller.reading.opensandbox.incoming import Incoming
from sandgauge_schemas.names import ErrorType
from sandgauge_schemas.version import __version__
from support.busy_machine import beside_timer
from support.certificate import make_certificate, server_context
from support.hand_clock import HandClock
from support.http_answers import ANSWERS, HEAD, MAX_BYTES
from support.http_stub import RawServer, StubServer
from support.waiting import wait_until

BOUNDS = Bounds(60.0, MAX_BYTES)
IMPATIENT = Bounds(0.3, MAX_BYTES)
TWO_SECONDS = Bounds(2.0, MAX_BYTES)
WHOLE = HEAD + b"Content-Length: 2\r\n\r\nok"


def target(port: int, *, host: str = "127.0.0.1", path: str = "/", is_tls: bool = False, headers=()) -> Target:
    return Target(Origin(is_tls, host, port), path, f"{host}:{port}", headers)


@asynccontextmanager
async def connections(bounds: Bounds = BOUNDS, *, clock=SYSTEM_CLOCK, tls: ClientTls | None = None):
    opened = DirectConnections(tls or ClientTls(), bounds, clock=clock)
    yield opened
    await opened.close()


@asynccontextmanager
async def serving(handle):
    """Have a function handle the connections to a port; it is over when their other sides have left."""
    handlers = set()

    async def serve(reader, writer):
        handlers.add(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await handle(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*handlers)


async def get(to: Target, bounds: Bounds = BOUNDS):
    async with connections(bounds) as opened:
        return await opened.get_new(to, asked=0.0)


@pytest.mark.parametrize(("script", "error_type"), ANSWERS)
async def test_every_answer_is_a_value(script, error_type):
    async with RawServer(*script) as server:
        answer = await get(target(server.port), IMPATIENT if error_type is ErrorType.TIMEOUT else BOUNDS)
    assert answer.error_type is error_type
    assert answer.body == b"" or error_type is None or answer.status != 200


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_daemon_that_is_not_there_is_an_outcome(host):
    (port,) = free_ports(1)
    answer = await get(target(port, host=host))
    assert (answer.error_type, answer.status) == (ErrorType.CONNECTION, None)


async def test_a_name_that_does_not_resolve_is_an_outcome():
    answer = await get(target(80, host="no-such-host.invalid"), Bounds(5.0, MAX_BYTES))
    assert answer.error_type in {ErrorType.CONNECTION, ErrorType.TIMEOUT}


async def test_a_name_is_looked_up():
    async with StubServer() as server:
        server.say("/", text="ok")
        answer = await get(target(server.port, host="localhost"))
    assert answer.body == b"ok"
    assert server.seen[0].headers["Host"] == f"localhost:{server.port}"


async def test_bytes_that_drip_do_not_prolong_the_bound():
    drip = [step for _ in range(100) for step in (b"x", 0.05)]
    async with (
        RawServer(HEAD + b"Content-Length: 100\r\n\r\n", *drip) as server,
        connections(Bounds(2.0, 1000)) as kept,
    ):
        answer, later_s = await beside_timer(2.0, kept.get_new(target(server.port), asked=0.0))
    assert answer.error_type is ErrorType.TIMEOUT
    assert later_s == pytest.approx(0.0, abs=0.5)
    assert (answer.window.end_ns - answer.window.start_ns) / 1e9 >= 1.99


async def test_the_window_is_the_read_and_the_wait_comes_before_it():
    hand = HandClock()
    began_s = hand.now_s

    async def slow(_request: web.Request) -> web.StreamResponse:
        hand.now_s += 0.1
        return web.Response(text="ok")

    async with StubServer() as server, connections(clock=hand.clock) as opened:
        server.on("/", slow)
        answer = await opened.get_new(target(server.port), asked=began_s - 5.0)
    assert answer.window.wait_s == pytest.approx(5.0)
    assert answer.window.start_ns == began_s * 1e9
    assert (answer.window.end_ns - answer.window.start_ns) / 1e9 == pytest.approx(0.1)


async def test_a_cancelled_read_stays_cancelled_and_its_connection_is_not_used_again():
    async with RawServer(10.0) as server, connections() as opened:
        task = asyncio.create_task(opened.get_new(target(server.port), asked=0.0))
        await server.connected.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await opened.get_kept(target(server.port), asked=0.0) is None


async def test_a_request_says_who_asks_and_what_its_endpoint_wants_said():
    async with StubServer() as server:
        own = (("OpenSandbox-Secure-Access", "t0ken"), ("opensandbox-access-renew", "now"))
        await get(target(server.port, path="/a/metrics", headers=own))
    (seen,) = server.seen
    assert seen.path == "/a/metrics"
    assert seen.headers["Host"] == f"127.0.0.1:{server.port}"
    assert seen.headers["User-Agent"] == f"sandgauge-poller/{__version__}"
    assert seen.headers["Accept-Encoding"] == "identity"
    assert seen.headers["OpenSandbox-Secure-Access"] == "t0ken"
    # A control plane cannot make a reading prolong a life.
    assert seen.headers.getall("OpenSandbox-Access-Renew") == ["skip"]


async def test_nothing_is_sent_without_a_kept_connection():
    async with StubServer() as server, connections() as opened:
        server.say("/", text="ok")
        assert await opened.get_kept(target(server.port), asked=0.0) is None
        await opened.get_new(target(server.port), asked=0.0)
        answer = await opened.get_kept(target(server.port), asked=0.0)
        assert answer is not None
        assert answer.body == b"ok"
    assert len({request.connection for request in server.seen}) == 1
    assert len(server.seen) == 2


async def test_two_readings_at_once_use_two_connections():
    arrived = asyncio.Barrier(2)

    async def together(_request: web.Request) -> web.StreamResponse:
        await arrived.wait()
        return web.Response(text="ok")

    async with StubServer() as server, connections() as opened:
        server.on("/", together)
        answers = await asyncio.gather(*(opened.get_new(target(server.port), asked=0.0) for _ in range(2)))
    assert [answer.error_type for answer in answers] == [None, None]


@pytest.mark.parametrize("then", ["says more", "leaves"])
async def test_a_kept_connection_that_does_anything_unasked_is_not_used_again(then):
    did = asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(WHOLE)
        await writer.drain()
        await asyncio.sleep(0.1)  # so that it does not come with the answer
        if then == "says more":
            writer.write(WHOLE)
            with suppress(ConnectionError):
                await reader.read()
        writer.close()
        did.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server, connections() as opened:
        to = target(server.sockets[0].getsockname()[1])
        assert (await opened.get_new(to, asked=0.0)).body == b"ok"
        await did.wait()
        await asyncio.sleep(0.1)
        assert await opened.get_kept(to, asked=0.0) is None


async def test_a_kept_connection_whose_daemon_dies_before_it_answers_is_a_failure_that_is_not_sent_again():
    requests = 0

    async def serve(reader, writer):
        nonlocal requests
        for answer in (WHOLE, b""):
            await reader.readuntil(b"\r\n\r\n")
            requests += 1
            writer.write(answer)
        writer.transport.abort()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server, connections() as opened:
        to = target(server.sockets[0].getsockname()[1])
        assert (await opened.get_new(to, asked=0.0)).error_type is None
        answer = await opened.get_kept(to, asked=0.0)
        assert answer is not None
        assert answer.error_type is ErrorType.CONNECTION
    assert requests == 2


async def test_what_is_idle_for_long_is_closed(monkeypatch):
    monkeypatch.setattr(direct, "KEEPALIVE_S", 0.2)
    monkeypatch.setattr(direct, "_SWEEP_S", 0.05)
    left = asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(WHOLE)
        await reader.read()
        writer.close()
        left.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server, connections() as opened:
        to = target(server.sockets[0].getsockname()[1])
        await opened.get_new(to, asked=0.0)
        await asyncio.wait_for(left.wait(), 60)
        assert await opened.get_kept(to, asked=0.0) is None
        assert not opened._idle


async def test_a_closed_pool_keeps_no_connection():
    async with RawServer(WHOLE, then_hold=True) as server:
        async with connections() as opened:
            pass
        answer = await opened.get_new(target(server.port), asked=0.0)
        assert answer.body == b"ok"
        assert await opened.get_kept(target(server.port), asked=0.0) is None


async def test_who_speaks_before_it_is_asked_does_not_speak_http():
    async def greet(reader, writer):
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
        await reader.read()

    async with serving(greet) as port:
        answer = await get(target(port))
    assert (answer.error_type, answer.status) == (ErrorType.UNRECOGNIZED_FORMAT, None)


async def test_a_read_that_is_cancelled_as_its_answer_comes_leaves_a_connection_that_is_watched(monkeypatch):
    class CancelsItsReader(Incoming):
        def take(self, data: bytes) -> bool:
            reading.cancel()
            return super().take(data)

    monkeypatch.setattr(direct, "Incoming", CancelsItsReader)
    says_more, left = asyncio.Event(), asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(WHOLE)
        await says_more.wait()
        writer.write(WHOLE)
        with suppress(ConnectionError):
            await reader.read()
        left.set()

    async with serving(serve) as port, connections() as opened:
        reading = asyncio.create_task(opened.get_new(target(port), asked=0.0))
        with pytest.raises(asyncio.CancelledError):
            await reading
        says_more.set()
        await asyncio.wait_for(left.wait(), 60)
        assert await opened.get_kept(target(port), asked=0.0) is None


@pytest.mark.parametrize(
    ("head", "endless"),
    [
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"extension"),
    ],
)
async def test_an_answer_that_never_gets_to_its_body_is_given_up_at_once(head, endless):
    async def flood(_reader, writer):
        writer.write(head)
        with suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(endless * 1000)
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(flood, "127.0.0.1", 0) as server:
        answer = await get(target(server.sockets[0].getsockname()[1]))
    assert answer.error_type is ErrorType.UNRECOGNIZED_FORMAT  # long before it would be a timeout


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"), "DNS:localhost")


@pytest.mark.parametrize(
    ("host", "trusts", "error_type"),
    [
        ("localhost", True, None),
        ("127.0.0.1", True, ErrorType.CONNECTION),  # the certificate does not name it
        ("localhost", False, ErrorType.CONNECTION),
    ],
)
async def test_a_gateways_certificate_is_checked(certificate, host, trusts, error_type):
    context = server_context(certificate)
    server = StubServer()
    await server.start(tls=context)
    server.say("/", text="ok")
    tls = ClientTls(ca_file=certificate) if trusts else ClientTls()
    async with connections(tls=tls) as opened:
        to = target(server.port, host=host, is_tls=True)
        answer = await opened.get_new(to, asked=0.0)
        assert answer.error_type is error_type
        assert (await opened.get_kept(to, asked=0.0) is None) == (error_type is not None)
    await server.stop()
    assert bool(server.seen) == (error_type is None)


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_a_read_that_is_cancelled_at_any_step_of_a_handshake_leaves_nothing_open(certificate):
    server = await asyncio.get_running_loop().create_server(
        asyncio.Protocol, "127.0.0.1", 0, ssl=server_context(certificate)
    )
    async with server, connections(tls=ClientTls(ca_file=certificate)) as opened:
        to = target(server.sockets[0].getsockname()[1], host="localhost", is_tls=True)
        open_before = open_files()
        for steps in range(60):
            reading = asyncio.create_task(opened.get_new(to, asked=0.0))
            for _ in range(steps):
                await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
        await asyncio.to_thread(wait_until, lambda: open_files() <= open_before, timeout_s=60, what="all are closed")
