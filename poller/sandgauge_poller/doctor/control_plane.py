"""A control plane: is it there, is it an OpenSandbox, does it take the key, and does a reading come through."""

import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import quote

from sandgauge_poller.config import Deployment, ProxyUse, format_duration
from sandgauge_poller.doctor.caller import Answer, Caller, is_about_tls
from sandgauge_poller.doctor.finding import Finding, failed, passed, warned
from sandgauge_poller.export.collector_client import NoAnswerError
from sandgauge_poller.reading.bodies import parse_object
from sandgauge_poller.reading.opensandbox.answers import error_code
from sandgauge_poller.reading.opensandbox.client import API_KEY_HEADER
from sandgauge_poller.reading.opensandbox.endpoints import EXECD_PORT
from sandgauge_poller.reading.opensandbox.execd import parse_metrics
from sandgauge_poller.reading.provider import Usage

_LIST = "/v1/sandboxes?state=Running&page=1&pageSize=1"
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,32}")
_CURE_OF_SILENCE = "start the control plane, or name its address as seen from here as endpoint"
_CURE_OF_TLS = "name the authority of its certificate as tls.ca_file, or write http:// if it speaks no TLS"
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


@dataclass(frozen=True, slots=True)
class Running:
    """How many sandboxes run, as far as the list tells, and one of them."""

    count: int | None
    sandbox_id: str


def examine(
    deployment: Deployment, max_clock_skew_s: float, now_s: Callable[[], float]
) -> Generator[Finding, None, Running | None]:
    """Yield what was found, and return what runs there; the first thing that is wrong is the last that is said."""
    what = f"deployment {deployment.name}"
    key = deployment.api_key.get_secret_value()
    # A reading must not keep a sandbox alive.
    headers = {"OpenSandbox-Access-Renew": "skip"} | ({API_KEY_HEADER: key} if key else {})
    with Caller(deployment.endpoint, headers, deployment.tls) as caller:
        try:
            answer = caller.get(_LIST)
        except NoAnswerError as error:
            yield failed(what, f"unreachable: {error}", _CURE_OF_TLS if is_about_tls(error) else _CURE_OF_SILENCE)
            return None
        sandboxes = _listed(answer)
        if sandboxes is None:
            yield _not_listed(what, answer, has_key=bool(key))
            return None
        wants = "takes the api_key" if key else "asks for no api_key"
        yield passed(what, f"OpenSandbox {_version(caller)} lists its sandboxes and {wants}")
        yield from _clock(what, answer, now_s(), max_clock_skew_s)
        if not sandboxes:
            return None
        if deployment.execd and deployment.use_server_proxy is not ProxyUse.NEVER:
            yield _reading(what, caller, sandboxes[0])
        return Running(_total(answer), sandboxes[0])


def _listed(answer: Answer) -> list[str] | None:
    """Return the ids in a list of sandboxes, or None where it is none."""
    items = (parse_object(answer.body) or {}).get("items") if answer.status == HTTPStatus.OK else None
    if not isinstance(items, list):
        return None
    return [item["id"] for item in items if isinstance(item, dict) and isinstance(item.get("id"), str)]


def _total(answer: Answer) -> int | None:
    """Return how many there are in all: a list comes in pages."""
    pagination = (parse_object(answer.body) or {}).get("pagination")
    total = pagination.get("totalItems") if isinstance(pagination, dict) else None
    return total if type(total) is int and total > 0 else None


def _not_listed(what: str, answer: Answer, *, has_key: bool) -> Finding:
    said = f"HTTP {answer.status}"
    if answer.status in _REFUSED:
        # Its own refusal has a code; a gateway on the way has none.
        if error_code(answer.body) is None:
            cure = "let it pass what carries the api_key, or name the control plane itself as endpoint"
            return failed(what, f"unauthorized by something in front of the control plane ({said})", cure)
        wanted = "the control plane refuses the api_key" if has_key else "the control plane wants an api_key"
        return failed(what, f"unauthorized: {wanted} ({said})", "write the server's own key as api_key")
    if HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
        return failed(
            what, f"redirects ({said}), which is not followed", "name the address that it leads to as endpoint"
        )
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        return failed(what, f"cannot list its sandboxes ({said})", "read the control plane's log")
    return failed(what, f"answers, but not as an OpenSandbox ({said})", "check host, port and path of endpoint")


def _version(caller: Caller) -> str:
    """Return what it says of its version; servers before 0.2 do not tell."""
    try:
        version = (parse_object(caller.get("/version").body) or {}).get("version")
    except NoAnswerError:
        version = None
    return version if isinstance(version, str) and _VERSION.fullmatch(version) else "of an unknown version"


def _clock(what: str, answer: Answer, now_s: float, most_s: float) -> Iterator[Finding]:
    """Yield how far its clock is off; its answers tell whole seconds, and not every server tells."""
    try:
        skew_s = parsedate_to_datetime(answer.date).timestamp() - now_s
    except (ValueError, OverflowError):
        return
    if abs(skew_s) <= most_s:
        yield passed(what, f"its clock is within {format_duration(most_s)} of this machine's")
    else:
        direction = "ahead of" if skew_s > 0 else "behind"
        cure = "set both by NTP: times of spans and readings would not fit together"
        yield warned(what, f"its clock is {format_duration(round(abs(skew_s)))} {direction} this machine's", cure)


def _reading(what: str, caller: Caller, sandbox_id: str) -> Finding:
    """Read one running sandbox through the proxy; a sandbox that just ended or started is no failure."""
    try:
        answer = caller.get(f"/v1/sandboxes/{quote(sandbox_id, safe='')}/proxy/{EXECD_PORT}/metrics")
    except NoAnswerError as error:
        return warned(
            what, f"a reading through the proxy got no answer: {error}", "try again: the sandbox may be ending"
        )
    if answer.status in _REFUSED:
        return _reading_refused(what, answer)
    if answer.status != HTTPStatus.OK:
        detail = f"a reading through the proxy failed (HTTP {answer.status})"
        return warned(what, detail, "try again: the sandbox may be starting or ending")
    usage = parse_metrics(answer.body)
    if isinstance(usage, Usage):
        return passed(what, "a running sandbox can be read through the proxy")
    return warned(what, f"a reading through the proxy is unusable ({usage.value})", "check the version of execd")


def _reading_refused(what: str, answer: Answer) -> Finding:
    # The daemon's own refusal has no code and says `error`. The sandbox can feign either: this only helps a reader.
    if "error" in (parse_object(answer.body) or {}):
        detail = f"unauthorized by the daemon in a sandbox, which has an access token of its own (HTTP {answer.status})"
        return warned(what, detail, "such a sandbox is not read; its image decides")
    detail = f"unauthorized by the control plane's proxy, though not by the control plane (HTTP {answer.status})"
    return failed(what, detail, "let what guards the proxied paths take the api_key")
