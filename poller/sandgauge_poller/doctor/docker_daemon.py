"""A Docker daemon as a deployment: is it there, and what of its containers may be asked for."""

import asyncio
from http import HTTPStatus

from sandgauge_poller.config import Deployment
from sandgauge_poller.doctor.finding import Finding, failed, warned
from sandgauge_poller.doctor.usage import has_events, of_version, shown, unreachable
from sandgauge_poller.reading.bodies import parse_object
from sandgauge_poller.reading.clock import SYSTEM_CLOCK
from sandgauge_poller.reading.docker.engine import Engine
from sandgauge_poller.reading.exchange import Answer
from sandgauge_poller.reading.tls import client_context

_TIMEOUT_S = 5.0
_NOBODY = "0" * 64
"""The id of no container: only who may ask hears from the daemon that there is none, and no secret comes along."""

_RIGHTS = "let the poller, or the proxy in between, have what docs/usage.md lists"


def examine(deployment: Deployment) -> Finding:
    """Return what was found, as one line."""
    what = f"deployment {deployment.name}"
    reason = unreachable(deployment.endpoint)
    if reason is not None:
        cure = "start Docker, let the poller's user open the socket, or mount it where the poller is a container"
        return failed(what, f"{deployment.endpoint} {reason}", cure)
    try:
        return asyncio.run(_ask(what, deployment))
    except OSError as error:  # of a certificate that was there when the configuration was read
        return failed(what, f"its certificates cannot be read: {error}", "look at the files under tls")


async def _ask(what: str, deployment: Deployment) -> Finding:
    engine = Engine(deployment.endpoint, client_context(deployment.tls), timeout_s=_TIMEOUT_S, clock=SYSTEM_CLOCK)
    try:
        inspection = await engine.inspect(_NOBODY)
        if inspection.status is None:
            cure = "start Docker, or name its address and certificates as seen from here"
            return failed(what, f"gives no answer ({inspection.error_type})", cure)
        if not _is_granted(inspection):
            return failed(what, f"may not inspect containers (HTTP {inspection.status})", _RIGHTS)
        said = f"{shown(engine.version)} lets its containers be inspected"
        stats = await engine.stats(_NOBODY)
        if not _is_granted(stats):
            return warned(what, f"{said}, but not their stats, so what they use is unknown", _RIGHTS)
        if not await has_events(engine):
            return warned(what, f"{said}, but not its events followed, so no out-of-memory kill is counted", _RIGHTS)
        return of_version(what, f"{said}, and their usage be read", engine.version)
    finally:
        await engine.close()


def _is_granted(answer: Answer) -> bool:
    """Tell whether the daemon itself looked for the container, and found none."""
    message = (parse_object(answer.body) or {}).get("message")
    return answer.status == HTTPStatus.NOT_FOUND and isinstance(message, str) and _NOBODY in message
