"""A Docker daemon: is it there, which is it, and what of it may be asked for."""

import asyncio
import stat
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from sandgauge_poller.config import Deployment
from sandgauge_poller.doctor.finding import Finding, failed, passed, warned
from sandgauge_poller.reading.bodies import parse_object
from sandgauge_poller.reading.clock import SYSTEM_CLOCK
from sandgauge_poller.reading.docker.engine import Engine, EngineVersion
from sandgauge_poller.reading.exchange import Answer
from sandgauge_poller.reading.tls import client_context
from sandgauge_schemas.names import ErrorType

_TIMEOUT_S = 5.0
_NOBODY = "sandgauge-doctor"
"""A container that nobody has: that the daemon says so shows that it may be asked, and brings no secret along."""

_NO_ANSWER = (ErrorType.CONNECTION, ErrorType.TIMEOUT)


def examine(deployment: Deployment) -> Iterator[Finding]:
    """Yield what was found of the daemon of a deployment; the first thing without which nothing is read is the last."""
    what = f"deployment {deployment.name}"
    problem = _socket_problem(what, deployment.endpoint)
    if problem is not None:
        yield problem
        return
    yield from asyncio.run(_examine(what, deployment))


def _socket_problem(what: str, endpoint: str) -> Finding | None:
    """Return why the socket cannot be opened, where the file alone tells."""
    parts = urlsplit(endpoint)
    if parts.scheme != "unix":
        return None
    try:
        is_socket = stat.S_ISSOCK(Path(parts.path).stat().st_mode)
    except OSError as error:
        cure = "start Docker, or name its socket as endpoint; in a container it has to be mounted"
        return failed(what, f"unreachable: no socket at {parts.path} ({error.strerror})", cure)
    return None if is_socket else failed(what, f"{parts.path} is no socket", "name Docker's socket as endpoint")


async def _examine(what: str, deployment: Deployment) -> list[Finding]:
    engine = Engine(deployment.endpoint, client_context(deployment.tls), timeout_s=_TIMEOUT_S, clock=SYSTEM_CLOCK)
    try:
        told = await engine.negotiate()
        if told.error_type in _NO_ANSWER:
            cure = "start Docker, let the poller's user open its socket, or name its address as seen from here"
            return [failed(what, f"unreachable: {_reason(told)}", cure)]
        inspection = await engine.inspect(_NOBODY)
        if not _is_granted(inspection):
            cure = "let GET /containers/{name}/json pass: allocation and state are in it"
            return [failed(what, f"may not inspect containers: {_reason(inspection)}", cure)]
        findings = [passed(what, f"Docker {_version(engine.version)} lets its containers be inspected")]
        stats = await engine.stats(_NOBODY)
        if not _is_granted(stats):
            cure = "let GET /containers/{name}/stats pass"
            findings.append(warned(what, f"usage is unknown, since stats are refused: {_reason(stats)}", cure))
        return findings
    finally:
        await engine.close()


def _is_granted(answer: Answer) -> bool:
    """Tell whether the daemon itself looked for the container, and found none."""
    message = (parse_object(answer.body) or {}).get("message")
    return answer.status == HTTPStatus.NOT_FOUND and isinstance(message, str) and _NOBODY in message


def _reason(answer: Answer) -> str:
    error = answer.error_type.value if answer.error_type is not None else "it answers as if there were one"
    return error if answer.status is None else f"HTTP {answer.status}"


def _version(version: EngineVersion | None) -> str:
    if version is None:
        return "of an unknown version"
    release = ".".join(map(str, version.release)) if version.release else "of an unknown version"
    return f"{release} (API {version.api[0]}.{version.api[1]})"
