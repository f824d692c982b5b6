"""What is wrong with the poller at present, in sentences: pure, from what the overview found."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sandgauge_poller.config import format_duration
from sandgauge_schemas.names import ErrorType, SandboxState

_OUTBOX_OLD_S = 60.0
"""A Collector that restarts is back by then."""

_STRETCHED = 1.05
"""Nobody minds an interval that is a twentieth longer."""


class Severity(StrEnum):
    """How bad it is: records or spans are not kept, or something wants a look."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Concern:
    """One thing that is wrong, and what to do about it."""

    severity: Severity
    text: str
    cure: str

    def as_json(self) -> dict[str, str]:
        """Return the three, under their names."""
        return {"severity": self.severity.value, "text": self.text, "cure": self.cure}


def concerns(overview: Mapping[str, Any]) -> Iterator[Concern]:
    """Yield what is wrong, the worst first."""
    yield from _of_the_store(overview["readiness"])
    yield from _of_the_outbox(overview["outbox"])
    for deployment in overview["deployments"]:
        yield from _of_a_deployment(deployment)
    if not overview["deployments"]:
        yield Concern(
            Severity.WARNING,
            "no deployment is configured: spans are taken in, and no sandbox is read",
            "name a control plane in deployments",
        )
    unmatched = overview["sandboxes"]["by_state"].get(SandboxState.UNMATCHED.value, 0)
    if unmatched:
        yield Concern(
            Severity.WARNING,
            "1 sandbox matches no deployment and is not read"
            if unmatched == 1
            else f"{unmatched} sandboxes match no deployment and are not read",
            "add the URL under which Gym knows its control plane to deployments[].scopes",
        )


def _of_the_store(readiness: Mapping[str, Any]) -> Iterator[Concern]:
    trouble = readiness.get("store_trouble")
    if trouble is not None:
        yield Concern(Severity.ERROR, f"spans and readings are not kept: {trouble}", "see state.directory")
    if not readiness["ingest"]:
        yield Concern(Severity.ERROR, "spans are not taken in yet", "wait for the log to say ready")


def _of_the_outbox(outbox: Mapping[str, Mapping[str, Any]]) -> Iterator[Concern]:
    for signal, waiting in outbox.items():
        if waiting["age_s"] > _OUTBOX_OLD_S:
            age = format_duration(round(waiting["age_s"]))
            text = f"the Collector has not taken the oldest {signal} for {age}"
            yield Concern(Severity.ERROR, text, "see whether the Collector at export.endpoint is up")


def _of_a_deployment(deployment: Mapping[str, Any]) -> Iterator[Concern]:
    name, last = deployment["name"], deployment["control_plane"]["last_answer"]
    if last == ErrorType.UNAUTHORIZED.value:
        yield Concern(Severity.ERROR, f"{name}: the control plane refuses the poller", "check the deployment's api_key")
    elif last not in ("ok", "not_asked"):
        text = f"{name}: the control plane gives no answer ({last})"
        yield Concern(Severity.ERROR, text, "see whether the deployment's endpoint is up")
    asked, effective = deployment["interval_s"], deployment["effective_interval_s"]
    if asked and effective > _STRETCHED * asked:
        text = f"{name}: more sandboxes than its slots carry, so each is read every {effective:.0f} s, not {asked:g} s"
        cure = "raise max_concurrent_proxied_reads, or let them be reached directly (allowed_endpoint_hosts)"
        yield Concern(Severity.WARNING, text, cure)
