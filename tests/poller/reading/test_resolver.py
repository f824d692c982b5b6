"""Names looked up: what one that hangs may hold up."""

import asyncio
import gc
import socket
import threading
from collections import Counter

import pytest
from yarl import URL

from sandgauge_poller.config import ClientTls
from sandgauge_poller.reading.clock import SYSTEM_CLOCK
from sandgauge_poller.reading.exchange import Bounds
from sandgauge_poller.reading.opensandbox.session import open_session
from sandgauge_poller.reading.resolver import Resolver
from sandgauge_schemas.names import ErrorType
from support.http_stub import StubServer
from support.waiting import wait_until

FOUND = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 80))]


class Names:
    """A system's resolver: it hangs for names that begin so, until it is released, and fails for those that end so."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.released = threading.Event()
        self.found = FOUND
        self._real = socket.getaddrinfo

    def getaddrinfo(self, host: str, port: int, *, type: int, flags: int):  # noqa: A002  # so it is called
        if flags & socket.AI_NUMERICHOST:
            return self._real(host, port, type=type, flags=flags)
        self.asked[host] += 1
        if host.startswith("hangs"):
            assert self.released.wait(60)
        if host.endswith("fails"):
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return self.found


@pytest.fixture
def names(monkeypatch):
    answers = Names()
    monkeypatch.setattr(socket, "getaddrinfo", answers.getaddrinfo)
    yield answers
    answers.released.set()


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "sandgauge-resolver"]


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7"])
async def test_an_address_is_not_looked_up(names, address):
    ((_, _, _, _, found),) = await Resolver().resolve(address, 80)
    assert found[:2] == (address, 80)
    assert not names.asked


async def test_a_name_is_looked_up_once_for_all_who_ask_at_once_and_anew_for_who_asks_later(names):
    resolver = Resolver()
    assert await asyncio.gather(*(resolver.resolve("gateway", 80) for _ in range(50))) == [FOUND] * 50
    assert names.asked == {"gateway": 1}
    assert await resolver.resolve("gateway", 80) == FOUND
    assert names.asked == {"gateway": 2}


async def test_a_name_that_is_not_there_is_an_error_for_each(names):
    resolver = Resolver()
    errors = await asyncio.gather(*(resolver.resolve("fails", 80) for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in errors] == [socket.gaierror] * 3
    assert names.asked == {"fails": 1}


async def test_a_name_that_hangs_holds_up_no_other_and_not_the_end_of_the_process(names):
    resolver = Resolver()
    for _ in range(30):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(resolver.resolve("hangs", 80), 0.001)
    assert await asyncio.wait_for(resolver.resolve("gateway", 80), 60) == FOUND
    await asyncio.wait_for(asyncio.to_thread(int), 60)
    assert names.asked["hangs"] == 1
    assert all(thread.daemon for thread in threads())
    names.released.set()
    assert await resolver.resolve("hangs", 80) == FOUND


async def test_no_more_than_a_few_are_looked_up_at_once(names):
    resolver = Resolver()
    asked = [asyncio.create_task(resolver.resolve(f"hangs{n}", 80)) for n in range(30)]
    await asyncio.wait(asked, timeout=0.05)
    assert len(threads()) <= 8
    names.released.set()
    assert await asyncio.gather(*asked) == [FOUND] * 30


async def test_a_failure_that_nobody_waits_for_any_more_is_no_error(names, caplog):
    resolver = Resolver()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(resolver.resolve("hangs, fails", 80), 0.001)
    names.released.set()
    await asyncio.to_thread(wait_until, lambda: not threads(), timeout_s=60, what="the look-up is over")
    del resolver
    gc.collect()
    await asyncio.sleep(0)
    assert not caplog.records


async def test_a_control_planes_name_is_looked_up_so_too(names):
    async with StubServer() as server:
        server.say("/", text="ok")
        session = open_session(ClientTls(), clock=SYSTEM_CLOCK, keepalive_s=1.0, headers={})
        silent = await session.get(URL("http://hangs/"), Bounds(0.05, 100), asked=0.0)
        missing = await session.get(URL("http://fails/"), Bounds(60.0, 100), asked=0.0)
        names.found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port))]
        there = await session.get(URL(f"http://plane:{server.port}/"), Bounds(60.0, 100), asked=0.0)
        await session.close()
    assert (silent.error_type, missing.error_type) == (ErrorType.TIMEOUT, ErrorType.CONNECTION)
    assert there.body == b"ok"
    assert names.asked == {"hangs": 1, "fails": 1, "plane": 1}
    assert all(thread.daemon for thread in threads())
