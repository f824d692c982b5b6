"""Probes: `/healthz` says that the process answers, `/readyz` that it takes spans in and keeps them."""

from collections.abc import Callable, Mapping

from aiohttp import web

from sandgauge_poller.config import ListenAddress


class StatusServer:
    """The status port; `readiness` names each part and whether it is ready."""

    def __init__(self, address: ListenAddress, readiness: Callable[[], Mapping[str, bool]]) -> None:
        self._address = address
        self._readiness = readiness
        application = web.Application()
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/readyz", self._readyz)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)

    async def start(self) -> tuple[str, int]:
        """Listen, and return the address; raises OSError where that is impossible."""
        await self._runner.setup()
        await web.TCPSite(self._runner, self._address.host, self._address.port).start()
        host, port = self._runner.addresses[0][:2]
        return host, port

    async def stop(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _readyz(self, _request: web.Request) -> web.Response:
        parts = self._readiness()
        ready = all(parts.values())
        return web.json_response({"ready": ready, **parts}, status=200 if ready else 503)
