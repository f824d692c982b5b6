"""What is wrong with a sandbox: pure judgements, each with its evidence and a cure."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from sandgauge_report.merging.sandboxes import Creation, Sandbox
from sandgauge_report.sizing import advise
from sandgauge_report.wording import NAMES, UNKNOWN, amount, amounts, counted, duration, memory, reading
from sandgauge_schemas.names import AllocationNote, Resource, SampleScope
from sandgauge_schemas.resources import SandboxResourceAmounts
from sandgauge_schemas.wording import number_of

CLOSE_TO_LIMIT = 0.9
"""Share of the memory limit from which on the highest reading is close to it."""

BUSY = 0.95
"""Share of the CPU limit from which on the 95th percentile of use is close to it."""

FAR_ABOVE = 2.0
"""How many times the advised amount is far above use."""

LEAST_SAVING = {Resource.CPU: 0.5, Resource.MEMORY_MIB: 256.0}
"""What there must be to save, in cores and MiB, for it to be worth a word."""

OUTLIVED_S = 300.0
"""How long a sandbox may be read after its stop, or the end of its rollout, before it counts as leaked."""

_SAME = 1e-6
_ROUNDED = {Resource.CPU: 0.005, Resource.MEMORY_MIB: 1.0}
"""How far an allocation noted as rounded may be off."""


class FindingKind(StrEnum):
    """What can be found."""

    NEVER_CREATED = "never_created"
    SDK_DEFAULT = "sdk_default"
    CLAMPED = "clamped"
    CHANGED_BY_CLUSTER = "changed_by_cluster"
    NEAR_LIMIT = "near_limit"
    KILLED_FOR_MEMORY = "killed_for_memory"
    OVER_RESERVED = "over_reserved"
    LEAKED = "leaked"
    NO_READINGS = "no_readings"
    NODE_READINGS = "node_readings"


HEADLINES = {
    FindingKind.NEVER_CREATED: "requested but never created",
    FindingKind.SDK_DEFAULT: "shape left to the SDK's default",
    FindingKind.CLAMPED: "clamped: submitted is not what was requested",
    FindingKind.CHANGED_BY_CLUSTER: "changed by the cluster: allocated is not what was submitted",
    FindingKind.NEAR_LIMIT: "close to or over its limit",
    FindingKind.KILLED_FOR_MEMORY: "killed for memory",
    FindingKind.OVER_RESERVED: "reserved far above use",
    FindingKind.LEAKED: "leaked",
    FindingKind.NO_READINGS: "no readings",
    FindingKind.NODE_READINGS: "readings describe the node, not the sandbox",
}

CURES = {
    FindingKind.NEVER_CREATED: (
        "see the control plane's answer in Gym's log; ask for less at once, or for a shape that it has room for"
    ),
    FindingKind.SDK_DEFAULT: "declare cpu and memory in the sandbox's spec, so that nobody else decides them",
    FindingKind.CLAMPED: "ask for what the provider's configuration allows, or raise its bounds",
    FindingKind.CHANGED_BY_CLUSTER: (
        "see what rewrites it: LimitRange, admission webhooks, the pool's template, a resize; or submit what it makes"
    ),
    FindingKind.NEAR_LIMIT: "raise the limit, or let the task use less, before it is killed or slowed down",
    FindingKind.KILLED_FOR_MEMORY: "raise the memory limit; the rollout's result is that of a killed program",
    FindingKind.OVER_RESERVED: "reserve less: what is advised is the use that was seen and a quarter more",
    FindingKind.LEAKED: "delete it if it still lives; see why its stop failed or was never sent, and set a timeout",
    FindingKind.NO_READINGS: "run `sandgauge doctor`: it says whether the daemon can be reached, and how",
    FindingKind.NODE_READINGS: (
        "configure a usage source (`usage:`), which sees the sandbox itself, or a runtime with a machine of its own"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong with one sandbox, or with a request for one."""

    kind: FindingKind
    sandbox: Sandbox
    evidence: str

    @property
    def cure(self) -> str:
        """What to do about it."""
        return CURES[self.kind]


def findings_of(sandboxes: Iterable[Sandbox]) -> tuple[Finding, ...]:
    """Return the findings by kind, in the kinds' order, and within one in the order of the sandboxes."""
    everyone = tuple(sandboxes)
    return tuple(
        Finding(kind=kind, sandbox=sandbox, evidence=evidence)
        for kind, judge in _JUDGES.items()
        for sandbox in everyone
        if (evidence := judge(sandbox)) is not None
    )


def _never_created(sandbox: Sandbox) -> str | None:
    number = "" if sandbox.count == 1 else f"{sandbox.count} of them: "
    match sandbox.creation:
        case Creation.FAILED:
            return f"{number}its start span has no sandbox id; error: {sandbox.error_type or UNKNOWN}"
        case Creation.NO_START:
            return f"{number}there is no start span: cancelled, or the span was lost"
        case _:
            return None


def _sdk_default(sandbox: Sandbox) -> str | None:
    if sandbox.submission is None or not sandbox.submission.sdk_default:
        return None
    main = sandbox.main
    allocated = UNKNOWN if main is None else amounts(main.limits)
    return f"nothing was submitted; allocated limits: {allocated}"


def _clamped(sandbox: Sandbox) -> str | None:
    submission, requested = sandbox.submission, sandbox.requested
    if submission is None or requested is None or not (submission.limits or submission.requests):
        return None
    differing = []
    for resource in Resource:
        asked = getattr(requested, resource)
        sent = getattr(submission.limits, resource)
        sent = getattr(submission.requests, resource) if sent is None else sent
        if asked is not None and not _same(asked, sent):
            went = "not submitted" if sent is None else f"submitted {amount(resource, sent)}"
            differing.append(f"{NAMES[resource]} requested {amount(resource, asked)}, {went}")
    return "; ".join(differing) or None


def _changed_by_cluster(sandbox: Sandbox) -> str | None:
    submission, main, allocation = sandbox.submission, sandbox.main, sandbox.allocation
    if submission is None or main is None or allocation is None:
        return None
    is_rounded = AllocationNote.ROUNDED in allocation.notes
    differing = [
        *_differing("limit", submission.limits, main.limits, is_rounded=is_rounded),
        *_differing("request", submission.requests, main.requests, is_rounded=is_rounded),
    ]
    notes = [str(note) for note in allocation.notes if note != AllocationNote.ROUNDED]
    noted = f" (noted: {', '.join(notes)})" if notes else ""
    return "; ".join(differing) + noted if differing else None


def _differing(
    side: str, submitted: SandboxResourceAmounts, allocated: SandboxResourceAmounts, *, is_rounded: bool
) -> Iterator[str]:
    """Yield what is in force otherwise than it was sent; what one of the two does not say is not known to differ."""
    for resource in Resource:
        sent, given = getattr(submitted, resource), getattr(allocated, resource)
        slack = _ROUNDED.get(resource, 0.0) if is_rounded else 0.0
        if sent is not None and given is not None and not _same(sent, given, slack):
            yield f"{NAMES[resource]} {side} submitted {amount(resource, sent)}, allocated {amount(resource, given)}"


def _same(left: float | str, right: float | str | None, slack: float = 0.0) -> bool:
    if isinstance(left, str) or isinstance(right, str) or right is None:
        return left == right
    return math.isclose(left, right, rel_tol=_SAME, abs_tol=slack)


def _near_limit(sandbox: Sandbox) -> str | None:
    if _killed_for_memory(sandbox) is not None:
        return None
    close = []
    for resource, bound in ((Resource.MEMORY_MIB, CLOSE_TO_LIMIT), (Resource.CPU, BUSY)):
        series = sandbox.preferred(resource)
        limit = None if series is None else sandbox.limit_of(series)
        if series is None or limit is None:
            continue
        is_memory = resource is Resource.MEMORY_MIB
        used = series.max if is_memory else series.p95
        if used is not None and used >= bound * limit:
            word = "at most" if is_memory else "95th percentile"
            shown = reading(series.key.quantity, used)
            close.append(
                f"{NAMES[resource]} {word} {shown}, {used / limit:.0%} of {amount(resource, limit)}; {counted(series)}"
            )
    return "; ".join(close) or None


def _killed_for_memory(sandbox: Sandbox) -> str | None:
    if not sandbox.oom_killed and not sandbox.oom_kills:
        return None
    told = f"{number_of(sandbox.oom_kills, 'kill')} counted" if sandbox.oom_kills else "the control plane says so"
    main, series = sandbox.main, sandbox.preferred(Resource.MEMORY_MIB)
    limit = UNKNOWN if main is None or main.limits.memory_mib is None else memory(main.limits.memory_mib)
    is_own = series is not None and series.key.scope is SampleScope.SANDBOX
    seen = f"; highest reading {memory(series.max)}" if series is not None and is_own else ""
    return f"{told}; limit {limit}{seen}"


def _over_reserved(sandbox: Sandbox) -> str | None:
    if _killed_for_memory(sandbox) is not None:
        return None
    too_much = []
    for resource, least in LEAST_SAVING.items():
        series = sandbox.preferred(resource)
        if series is None or (reserved := sandbox.reserved_for(series)) is None:
            continue
        advice = advise(resource, reserved, series)
        if advice.advised is None or reserved < FAR_ABOVE * advice.advised or reserved - advice.advised < least:
            continue
        used = reading(series.key.quantity, series.max)
        too_much.append(
            f"{NAMES[resource]} {amount(resource, reserved)} reserved, at most {used} used; "
            f"{amount(resource, advice.advised)} advised from {counted(series)}"
        )
    return "; ".join(too_much) or None


def _leaked(sandbox: Sandbox) -> str | None:
    if sandbox.leaked:
        lived = UNKNOWN if sandbox.lifetime_s is None else duration(sandbox.lifetime_s)
        return f"it outlived its rollout or its stop; lived {lived}, ended: {sandbox.end or UNKNOWN}"
    if sandbox.leaked is None and sandbox.outlived_s is not None and sandbox.outlived_s > OUTLIVED_S:
        return f"still read {duration(sandbox.outlived_s)} after its stop or the end of its rollout; no summary yet"
    return None


def _no_readings(sandbox: Sandbox) -> str | None:
    failed = sum(sandbox.failures.values())
    if sandbox.readings or not (sandbox.missed or failed):
        return None
    reasons = ", ".join(f"{error_type} {count}" for error_type, count in sandbox.failures.items()) or UNKNOWN
    return f"{max(sandbox.missed or 0, failed)} were due and failed; reasons: {reasons}"


def _node_readings(sandbox: Sandbox) -> str | None:
    series = sandbox.preferred(Resource.MEMORY_MIB)
    if series is None or series.key.scope is not SampleScope.NODE:
        return None
    total = sandbox.memory_totals.get(SampleScope.NODE)
    main = sandbox.main
    limit = "no limit" if main is None or main.limits.memory_mib is None else f"limit {memory(main.limits.memory_mib)}"
    shown = "" if total is None else f"; total {memory(total.mib)}, {limit} ({total.evidence or UNKNOWN})"
    return f"{counted(series)}{shown}"


_JUDGES: dict[FindingKind, Callable[[Sandbox], str | None]] = {
    FindingKind.KILLED_FOR_MEMORY: _killed_for_memory,
    FindingKind.LEAKED: _leaked,
    FindingKind.NEVER_CREATED: _never_created,
    FindingKind.NEAR_LIMIT: _near_limit,
    FindingKind.CHANGED_BY_CLUSTER: _changed_by_cluster,
    FindingKind.CLAMPED: _clamped,
    FindingKind.SDK_DEFAULT: _sdk_default,
    FindingKind.OVER_RESERVED: _over_reserved,
    FindingKind.NO_READINGS: _no_readings,
    FindingKind.NODE_READINGS: _node_readings,
}
"""The worst first."""
