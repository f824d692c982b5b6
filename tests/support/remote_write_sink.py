"""A receiver of Prometheus remote write: it keeps what it gets, and takes everything."""

import threading
from collections.abc import Callable

from aiohttp import web

from support.remote_write import Sample, samples_of
from support.served_in_thread import ServedInThread

_HEADERS = {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"}


class RemoteWriteSink(ServedInThread):
    """Serves `/api/v1/write` on loopback, in a thread of its own, while its context is open."""

    def __init__(self) -> None:
        super().__init__("remote-write-sink")
        self._port = 0
        self._changed = threading.Condition()
        self._samples: list[Sample] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/api/v1/write"

    def samples(self, name: str) -> list[Sample]:
        """Return the samples of one metric so far."""
        with self._changed:
            return [sample for sample in self._samples if sample.labels["__name__"] == name]

    def wait_for(self, predicate: Callable[["RemoteWriteSink"], bool], timeout_s: float = 60) -> None:
        """Return as soon as the predicate of this sink holds; AssertionError when it does not within the seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: predicate(self), timeout_s):
                raise AssertionError(f"not within {timeout_s:g} s; {[sample.labels for sample in self._samples]}")

    async def _serve(self) -> None:
        app = web.Application()
        app.router.add_post("/api/v1/write", self._write)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self._port = runner.addresses[0][1]
            self._started.set()
            await self._ended.wait()
        finally:
            await runner.cleanup()

    async def _write(self, request: web.Request) -> web.Response:
        if not _HEADERS.items() <= request.headers.items():
            return web.Response(status=415)
        samples = list(samples_of(await request.read()))
        with self._changed:
            self._samples += samples
            self._changed.notify_all()
        return web.Response(status=204)
