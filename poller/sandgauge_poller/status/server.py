"""The status port: probes (`/healthz`, `/readyz`), `/metrics`, the page at `/`, and its JSON below `/api/v1`."""

from collections.abc import Awaitable, Callable

from aiohttp import hdrs, web

from sandgauge_poller.config import Status
from sandgauge_poller.config.urls import is_loopback
from sandgauge_poller.status.access import PageToken
from sandgauge_poller.status.api import Api
from sandgauge_poller.status.metrics_page import MetricsPage
from sandgauge_poller.status.page_files import GUARDS, PageFile, page_files
from sandgauge_poller.status.readiness import Readiness

_ASK_FOR_TOKEN = {hdrs.WWW_AUTHENTICATE: 'Basic realm="sandgauge", charset="UTF-8"'}
"""With it a browser asks for a password, which is the token."""

_MISDIRECTED = "without status.auth.bearer_token this is served to localhost and 127.0.0.1 alone, not to other names"

_Handler = Callable[[web.Request], Awaitable[web.Response]]


class StatusServer:
    """The status port; probes need no token, all else does where one is configured."""

    def __init__(self, status: Status, readiness: Readiness, metrics_page: MetricsPage, api: Api) -> None:
        self._address = status.endpoint
        token = status.auth.bearer_token.get_secret_value()
        self._token = PageToken(token)
        # A web site whose name was made to lead here could read it with a browser of this machine.
        self._is_meant_for_this_machine_alone = not token and self._address.is_loopback
        self._readiness = readiness
        self._metrics_page = metrics_page
        application = web.Application()
        application.on_response_prepare.append(_guard)
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._guarded(self._metrics))
        application.router.add_get("/api/v1/overview", self._guarded(api.overview))
        application.router.add_get("/api/v1/sandboxes", self._guarded(api.sandboxes))
        application.router.add_get("/api/v1/sandboxes/{sandbox_id}", self._guarded(api.sandbox))
        for file in page_files():
            application.router.add_get(file.route, self._guarded(_serving(file)))
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)

    async def start(self) -> tuple[str, int]:
        """Listen, and return the address; raises OSError where that is impossible."""
        await self._runner.setup()
        await web.TCPSite(self._runner, self._address.host, self._address.port).start()
        host, port = self._runner.addresses[0][:2]
        return host, port

    async def stop(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()

    def _guarded(self, handler: _Handler) -> _Handler:
        async def checked(request: web.Request) -> web.Response:
            if not self._token.is_shown_by(request):
                return web.Response(status=401, text="the token of status.auth is wanted", headers=_ASK_FOR_TOKEN)
            if self._is_meant_for_this_machine_alone and not is_loopback(_name(request.host)):
                return web.Response(status=421, text=_MISDIRECTED)
            return await handler(request)

        return checked

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _readyz(self, _request: web.Request) -> web.Response:
        report = self._readiness.report()
        return web.json_response(report, status=200 if report["ready"] else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        page, content_type = await self._metrics_page.render(request.headers.get(hdrs.ACCEPT, ""))
        return web.Response(body=page, headers={hdrs.CONTENT_TYPE: content_type})


def _name(host: str) -> str:
    """Return a Host header's name without its port."""
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return name.strip("[]")


def _serving(file: PageFile) -> _Handler:
    async def serve(_request: web.Request) -> web.Response:
        return file.answer()

    return serve


async def _guard(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(GUARDS)
