"""A usage source: is it there, which version is it, and may the poller ask it what it has to."""

import asyncio
import socket
import time
from urllib.parse import urlsplit

from sandgauge_poller.config import Usage
from sandgauge_poller.doctor.finding import Finding, failed, passed, warned
from sandgauge_poller.reading.clock import SYSTEM_CLOCK
from sandgauge_poller.reading.docker.engine import Engine, EngineVersion
from sandgauge_poller.reading.docker.events import FILTERS
from sandgauge_poller.reading.docker.identity import SANDBOX_LABEL, parse_list
from sandgauge_poller.reading.docker.usage import SAMPLES_DIRECTLY
from sandgauge_poller.reading.exchange import Answer, StreamError
from sandgauge_poller.reading.tls import client_context
from sandgauge_schemas.names import ErrorType
from sandgauge_schemas.wording import number_of

_TIMEOUT_S = 5.0
_NOBODY = "0" * 64
"""The id of no container: that there is none is an answer too, and only who may ask gets it."""

_RIGHTS = "let the poller, or the proxy in between, have what docs/usage.md lists"


def examine(usage: Usage) -> Finding:
    """Return what was found, as one line."""
    what = f"usage source {usage.endpoint}"
    reason = unreachable(usage.endpoint)
    if reason is not None:
        return failed(what, reason, "let the poller's user open the socket, or name a proxy's; see docs/usage.md")
    try:
        return asyncio.run(_ask(what, usage))
    except OSError as error:  # of a certificate that was there when the configuration was read
        return failed(what, f"its certificates cannot be read: {error}", "look at the files under tls")


def unreachable(endpoint: str) -> str | None:
    """Return why a socket cannot be opened, which the library that asks through it does not tell apart."""
    parts = urlsplit(endpoint)
    if parts.scheme != "unix":
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_TIMEOUT_S)
        try:
            probe.connect(parts.path)
        except OSError as error:
            return f"cannot be opened: {error.strerror or error}"
    return None


async def _ask(what: str, usage: Usage) -> Finding:
    engine = Engine(usage.endpoint, client_context(usage.tls), timeout_s=_TIMEOUT_S, clock=SYSTEM_CLOCK)
    try:
        listed = await engine.containers(SANDBOX_LABEL)
        if listed.error_type is not None:
            return _not_listed(what, listed)
        containers = parse_list(listed.body)
        if containers is None:
            return failed(what, "answers, but not as a Docker daemon", "check the endpoint")
        stats = await engine.stats(_NOBODY)
        if stats.error_type is not ErrorType.NOT_FOUND:
            return failed(what, f"may not read stats of containers (HTTP {stats.status})", _RIGHTS)
        said = f"{shown(engine.version)} lists {number_of(len(containers), 'sandbox')} and lets their stats be read"
        if not await has_events(engine):
            return warned(what, f"{said}, but not its events, so no out-of-memory kill is counted", _RIGHTS)
        return of_version(what, said, engine.version)
    finally:
        await engine.close()


def _not_listed(what: str, answer: Answer) -> Finding:
    if answer.error_type is ErrorType.UNAUTHORIZED:
        return failed(what, f"may not list containers (HTTP {answer.status})", _RIGHTS)
    if answer.status is not None:
        return failed(what, f"answers, but not as a Docker daemon (HTTP {answer.status})", "check the endpoint")
    cure = "start the daemon, or name its address and certificates as seen from here"
    return failed(what, f"gives no answer ({answer.error_type})", cure)


async def has_events(engine: Engine) -> bool:
    """Tell whether the daemon lets its events be followed."""
    try:
        async with engine.events(FILTERS, time.time_ns()):
            return True
    except StreamError:
        return False


def of_version(what: str, said: str, version: EngineVersion | None) -> Finding:
    """Return what there is to say of the version of a daemon with which all else is well."""
    if version is None or version.release is None:
        cure = "let GET /version through: an engine before 24.0.7 has to be asked otherwise"
        return warned(what, f"{said}, but does not tell its version", cure)
    if version.release < SAMPLES_DIRECTLY:
        detail = f"{said}; one container that hangs holds up the readings of all"
        return warned(what, detail, "update Docker to 24.0.7 or newer")
    return passed(what, said)


def shown(version: EngineVersion | None) -> str:
    """Return what a daemon is, as far as it told."""
    if version is None or version.release is None:
        return "Docker of an unknown version"
    return "Docker {}.{}.{}".format(*version.release)
