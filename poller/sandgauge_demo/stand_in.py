"""A stand-in for the OpenTelemetry Collector, for the demo on a machine that has none.

It does two things of the shipped configuration and nothing else: it forwards the lifecycle spans to the poller, and
writes the joined file. It queues in memory and knows no backend: no replacement for a Collector.
`python -m sandgauge_demo.stand_in` runs it in a process of its own, until it is told to end.
"""

import argparse
import asyncio
import json
import logging
import signal
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web
from google.protobuf.message import DecodeError

from sandgauge_demo.otlp_traces import JSON, PROTOBUF, JoinedGroups, Json, decode_traces, lifecycle_feed

NOTICE = "Stand-in for the OpenTelemetry Collector: it feeds the poller and writes the joined file, no more."

_HOST = "127.0.0.1"
_MAX_BODY_BYTES = 20 * 2**20
_QUEUED_REQUESTS = 1_000
_RETRIED = {
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
_TIMEOUT = aiohttp.ClientTimeout(total=10.0)
_SHUTDOWN_TIMEOUT_S = 0.1

_log = logging.getLogger(__name__)


class StandInCollector:
    """An OTLP/HTTP receiver on loopback, as an asynchronous context manager; `endpoint` is its base URL once started.

    `poller_endpoint` is the poller's base URL. `joined_file` is appended to: one line for what came within
    `join_window_s`, one Resource in it for each rollout.
    """

    def __init__(
        self,
        *,
        poller_endpoint: str,
        joined_file: Path,
        port: int = 0,
        join_window_s: float = 1.0,
        retry_interval_s: float = 1.0,
    ) -> None:
        self.endpoint = ""
        self._feed_url = f"{poller_endpoint}/v1/traces"
        self._joined_file = joined_file
        self._port = port
        self._join_window_s = join_window_s
        self._retry_interval_s = retry_interval_s
        self._queue: asyncio.Queue[list[Json]] = asyncio.Queue(_QUEUED_REQUESTS)
        self._groups = JoinedGroups()
        application = web.Application(client_max_size=_MAX_BODY_BYTES)
        application.router.add_get("/", self._notice)
        application.router.add_post("/v1/traces", self._traces)
        application.router.add_post("/v1/metrics", self._metrics)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_TIMEOUT_S)

    async def __aenter__(self) -> Self:
        """Start listening. Raise OSError when the joined file cannot be written or the port is taken."""
        self._joined = self._joined_file.open("a", encoding="utf-8")
        await self._runner.setup()
        await web.TCPSite(self._runner, _HOST, self._port).start()
        self.endpoint = f"http://{_HOST}:{self._runner.addresses[0][1]}"
        self._forwarding = asyncio.create_task(self._forward())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop listening and write out the last window. What is still queued for the poller is lost."""
        await self._runner.cleanup()
        self._forwarding.cancel()
        await asyncio.gather(self._forwarding, return_exceptions=True)
        self._write_line()
        self._joined.close()

    async def _notice(self, _request: web.Request) -> web.Response:
        return web.Response(text=NOTICE)

    async def _metrics(self, request: web.Request) -> web.Response:
        await request.read()
        return _accepted(request)

    async def _traces(self, request: web.Request) -> web.Response:
        if request.content_type not in (JSON, PROTOBUF):
            return web.Response(status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text=f"{PROTOBUF} or {JSON}")
        try:
            spans = decode_traces(request.content_type, await request.read())
        except (DecodeError, ValueError):
            return web.Response(status=HTTPStatus.BAD_REQUEST, text="not an OTLP trace request")
        if feed := lifecycle_feed(spans):
            if self._queue.full():
                return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": "1"})
            self._queue.put_nowait(feed)
        was_empty = not self._groups
        for span in spans:
            self._groups.add(span)
        if was_empty and self._groups:
            asyncio.get_running_loop().call_later(self._join_window_s, self._write_line)
        return _accepted(request)

    async def _forward(self) -> None:
        """Send one request after another to the poller, each until it is answered for good."""
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
            while True:
                feed = await self._queue.get()
                while not await self._is_settled(session, feed):  # noqa: ASYNC110 - nothing signals that it is back
                    await asyncio.sleep(self._retry_interval_s)

    async def _is_settled(self, session: aiohttp.ClientSession, feed: list[Json]) -> bool:
        try:
            async with session.post(self._feed_url, json={"resourceSpans": feed}) as answer:
                status = answer.status
        except (aiohttp.ClientError, TimeoutError):
            return False
        if status in _RETRIED:
            return False
        if status >= HTTPStatus.BAD_REQUEST:
            _log.warning("the poller answered %d: %d lifecycle spans are lost", status, len(feed))
        return True

    def _write_line(self) -> None:
        if self._groups and not self._joined.closed:
            self._joined.write(json.dumps(self._groups.take(), separators=(",", ":")) + "\n")
            self._joined.flush()


def _accepted(request: web.Request) -> web.Response:
    """Return OTLP's empty success in the encoding of the request."""
    body = b"{}" if request.content_type == JSON else b""
    return web.Response(body=body, content_type=request.content_type)


def main() -> None:
    """Serve until SIGINT or SIGTERM. The first line of standard output is the base URL."""
    parser = argparse.ArgumentParser(prog="python -m sandgauge_demo.stand_in", description=NOTICE)
    parser.add_argument("--poller", required=True, metavar="URL", help="base URL of the poller's ingest")
    parser.add_argument("--joined-file", required=True, type=Path, metavar="FILE", help="where lines are appended")
    chosen = parser.parse_args()
    logging.basicConfig()
    asyncio.run(_serve(StandInCollector(poller_endpoint=chosen.poller, joined_file=chosen.joined_file)))


async def _serve(stand_in: StandInCollector) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with stand_in:
        print(stand_in.endpoint, flush=True)  # noqa: T201 - how the starting process learns the port
        await ended.wait()


if __name__ == "__main__":
    main()
