"""A poller that runs with this configuration, asked over its status port."""

from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

from prometheus_client.parser import text_string_to_metric_families

from sandgauge_poller.config import ClientTls, Status
from sandgauge_poller.doctor.caller import Caller
from sandgauge_poller.doctor.finding import Finding, warned
from sandgauge_poller.export.collector_client import NoAnswerError
from sandgauge_poller.reading.bodies import parse_object
from sandgauge_schemas import names
from sandgauge_schemas.names import SandboxState
from sandgauge_schemas.wording import number_of

_GATES = ("store", "ingest")
_SANDBOXES = names.METRIC_SANDGAUGE_POLLER_SANDBOXES.replace(".", "_")


@dataclass(frozen=True, slots=True)
class RunningPoller:
    """What its `/readyz` said; `missing` names the parts that are not ready."""

    url: str
    missing: tuple[str, ...]


def find_running(status: Status) -> RunningPoller | None:
    """Return the poller that answers at the status address, or None."""
    if status.endpoint.port == 0:
        return None
    url = status.endpoint.url
    try:
        with Caller(url, {}, ClientTls()) as caller:
            said = parse_object(caller.get("/readyz").body) or {}
    except NoAnswerError:
        return None
    if not all(isinstance(said.get(gate), bool) for gate in _GATES):
        return None
    return RunningPoller(url, tuple(gate for gate in _GATES if not said[gate]))


def unmatched(poller: RunningPoller, status: Status) -> Iterator[Finding]:
    """Yield a warning if it follows sandboxes that no deployment owns."""
    token = status.auth.bearer_token.get_secret_value()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with Caller(poller.url, headers, ClientTls()) as caller:
            answer = caller.get("/metrics")
        count = _count_unmatched(answer.body.decode(errors="replace")) if answer.status == HTTPStatus.OK else 0
    except (NoAnswerError, ValueError):
        return  # the page only adds to what is known
    if count:
        cure = "add the URL under which Gym knows its control plane to deployments[].scopes"
        whose = f"{number_of(count, 'sandbox')} of the running poller"
        yield warned("scopes", f"{whose} {'matches' if count == 1 else 'match'} no deployment", cure)


def _count_unmatched(page: str) -> int:
    samples = (sample for family in text_string_to_metric_families(page) for sample in family.samples)
    state = SandboxState.UNMATCHED.value
    return round(sum(s.value for s in samples if s.name == _SANDBOXES and s.labels.get(names.STATE) == state))
