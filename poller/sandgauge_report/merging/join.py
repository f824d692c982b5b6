"""From the state of the whole input to its sandboxes, each with its rollout, its request and its statistics."""

from collections import Counter
from collections.abc import Iterable, Iterator

from sandgauge_report.merging.identity import identified
from sandgauge_report.merging.inventory import FailedStart, Inventory, RequestState, RolloutKey, Wish
from sandgauge_report.merging.sandbox_state import SandboxState
from sandgauge_report.merging.sandboxes import Creation, Sandbox, Series, preference
from sandgauge_report.merging.series import series_of
from sandgauge_schemas import names
from sandgauge_schemas.names import EndReason
from sandgauge_schemas.records import Allocation, RequestRecord, Submission, SummaryRecord

_STOPPED: str = EndReason.STOPPED
_Rollout = tuple[str | None, str | None]
"""Run id and rollout id."""

_PATIENCE_NS = 600_000_000_000
"""How long a creation may take before a request without a start counts as not created."""


def sandboxes_of(inventory: Inventory) -> tuple[Sandbox, ...]:
    """Return every sandbox, and every wish that came to nothing: run by run, rollout by rollout, in order of time."""
    join = _Join(inventory)
    found = [*join.created(), *join.not_created()]
    begun: dict[tuple[str | None, ...], int] = {}
    for one in found:
        for key in ((one.run_id,), (one.run_id, one.rollout_id)):
            begun[key] = min(begun.get(key, one.begun_ns), one.begun_ns)

    def place(one: Sandbox) -> tuple[object, ...]:
        run, rollout = (one.run_id,), (one.run_id, one.rollout_id)
        # What a request lacks comes after what it got.
        ids = [(text is None, text or "") for text in (one.request_id, one.sandbox_id, one.trace_id, one.provider)]
        return (begun[run], one.run_id or "", begun[rollout], one.rollout_id or "", one.begun_ns, ids)

    return tuple(sorted(found, key=place))


class _Join:
    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._sandboxes = list(identified(inventory.sandboxes))
        self._created: Counter[str | None] = Counter(
            one.state.keys[names.NEMO_GYM_SANDBOX_REQUEST_ID].value for one in self._sandboxes
        )
        self._wishes = {
            request_id: request.wish.value
            for request_id, request in inventory.requests.items()
            if request.wish.value is not None
        }

    def created(self) -> Iterator[Sandbox]:
        for one in self._sandboxes:
            yield self._sandbox(one.provider, one.sandbox_id, one.state)

    def not_created(self) -> Iterator[Sandbox]:
        """Yield what was asked for and is not there."""
        for request_id, request in self._inventory.requests.items():
            yield from self._unfulfilled(request_id, request)
        for first in self._inventory.failed_starts.values():
            if first.value is not None:
                yield self._failed(first.value, None)

    def _unfulfilled(self, request_id: str, request: RequestState) -> Iterator[Sandbox]:
        created, wish = self._created[request_id], request.wish.value
        failed = [first.value for first in request.failed.values() if first.value is not None]
        failed.sort(key=lambda one: (one.start_ns, one.trace_id, one.error_type or "", repr(one.record)))
        if wish is None:
            if not created and failed:  # retries of one wish share its id
                yield self._failed(failed[-1], request_id)
            return
        missing = wish.record.count - created
        if missing <= 0:
            return
        keys, error_type = wish.record.keys, next((one.error_type for one in failed if one.error_type), None)
        run_id, rollout_id = self._rollout(keys.run_id, keys.rollout_id, wish.trace_id)
        without_start = self._without_start(run_id, rollout_id, wish)
        yield Sandbox(
            run_id=run_id,
            rollout_id=rollout_id,
            trace_id=wish.trace_id or None,
            request_id=keys.request_id,
            provider=keys.provider,
            service=wish.record.service_name,
            creation=Creation.FAILED if failed else without_start,
            count=missing,
            error_type=error_type,
            begun_ns=wish.start_ns,
            requested=wish.record.requested,
            sidecars=wish.record.sidecars,
        )

    def _failed(self, start: FailedStart, request_id: str | None) -> Sandbox:
        keys = start.record.keys
        run_id, rollout_id = self._rollout(keys.run_id, keys.rollout_id, start.trace_id)
        return Sandbox(
            run_id=run_id,
            rollout_id=rollout_id,
            trace_id=start.trace_id or None,
            request_id=request_id,
            provider=keys.provider,
            creation=Creation.FAILED,
            error_type=start.error_type,
            begun_ns=start.start_ns,
            submission=start.record.submission,
        )

    def _without_start(self, run_id: str | None, rollout_id: str | None, wish: Wish) -> Creation:
        is_over = self._rollout_end(run_id, rollout_id, wish.trace_id) is not None
        waited_ns = self._inventory.newest_ns - wish.start_ns
        return Creation.NO_START if is_over or waited_ns > _PATIENCE_NS else Creation.PENDING

    def _rollout(self, run_id: str | None, rollout_id: str | None, trace_id: str | None) -> _Rollout:
        """Return run and rollout id, taken from the trace's rollout span where a record does not know them."""
        told = self._inventory.rollouts_of_trace.get(trace_id or "", set())
        if len(told) == 1 and (run_id is None or rollout_id is None):
            ((told_run_id, told_rollout_id),) = told
            if rollout_id in (None, told_rollout_id) and (run_id is None or told_run_id in (None, run_id)):
                return run_id or told_run_id, told_rollout_id
        return run_id, rollout_id

    def _rollout_end(self, run_id: str | None, rollout_id: str | None, trace_id: str | None) -> int | None:
        key: RolloutKey = (run_id or trace_id or "", rollout_id or "")
        return self._inventory.rollout_ends.get(key)

    def _sandbox(self, provider: str | None, sandbox_id: str, state: SandboxState) -> Sandbox:
        told = {key: first.value for key, first in state.keys.items()}
        trace_id, start, summary = state.trace_id.value, state.start.value, state.summary.value
        run_id, rollout_id = self._rollout(told[names.NEMO_RUN_ID], told[names.NEMO_GYM_ROLLOUT_ID], trace_id)
        request_id = told[names.NEMO_GYM_SANDBOX_REQUEST_ID]
        wish = self._wishes.get(request_id or "")
        request = _request_of(state, None if wish is None else wish.record)
        allocated, unallocated = state.allocation.value, state.unallocated.value
        series = tuple(sorted(series_of(state), key=preference))
        first_ns = min((one.first_ns for one in series if one.first_ns is not None), default=0)
        begun_ns = wish.start_ns if wish is not None else start.start_ns if start is not None else first_ns
        stop_ns, rollout_end_ns = state.stop_ns.value, self._rollout_end(run_id, rollout_id, trace_id)
        return Sandbox(
            run_id=run_id,
            rollout_id=rollout_id,
            trace_id=trace_id,
            request_id=request_id,
            sandbox_id=sandbox_id,
            provider=provider,
            scope=state.scope,
            server=told[names.NEMO_GYM_SERVER_NAME],
            service=None if wish is None else wish.record.service_name,
            begun_ns=begun_ns,
            requested=None if request is None else request.requested,
            sidecars=() if request is None else request.sidecars,
            submission=_submission_of(state),
            allocation=_allocation_of(state),
            allocation_source=None if allocated is None else allocated.status.source or None,
            unallocated=unallocated.status.error_type if unallocated is not None and allocated is None else None,
            series=series,
            memory_totals=state.memory_totals,
            readings=_reading_count(summary, series),
            missed=None if summary is None else summary.readings_missed,
            failures=_failures(state),
            interval_s=None if summary is None else summary.effective_interval_s,
            lifetime_s=_lifetime_s(state),
            end=_STOPPED if summary is None and stop_ns else None if summary is None else summary.end_reason or None,
            oom_killed=None if summary is None else summary.oom_killed,
            oom_kills=summary.oom_kills if summary is not None and summary.oom_kills is not None else state.oom_kills,
            leaked=None if summary is None else summary.leaked,
            outlived_s=_outlived_s(series, (stop_ns, rollout_end_ns)),
            resets=None if summary is None else summary.resets,
            has_poller_records=bool(summary or allocated or unallocated or series or state.failures),
        )


def _request_of(state: SandboxState, wish: RequestRecord | None) -> RequestRecord | None:
    """Return what was requested; a summary echoes it, and then has its count."""
    summary = state.summary.value
    if wish is not None or summary is None or summary.requested_count is None:
        return wish
    return RequestRecord(keys=summary.keys, requested=summary.requested, sidecars=summary.sidecars)


def _submission_of(state: SandboxState) -> Submission | None:
    """Return what was submitted; None where nobody who could know it said anything."""
    start, summary = state.start.value, state.summary.value
    told = start.record.submission if start is not None else None if summary is None else summary.submission
    return None if told == Submission() else told


def _allocation_of(state: SandboxState) -> Allocation | None:
    """Return what is in force, as last told."""
    record, summary = state.allocation.value, state.summary.value
    if record is not None:
        return record.allocation
    return summary.allocation if summary is not None and summary.allocation.components else None


def _failures(state: SandboxState) -> dict[str, int]:
    failures: Counter[str] = Counter()
    for status, readings in state.failures.items():
        failures[status.error_type or ""] += readings.count
    return dict(sorted(failures.items()))


def _reading_count(summary: SummaryRecord | None, series: Iterable[Series]) -> int | None:
    counts: Counter[tuple[str, str]] = Counter()
    for one in series:
        counts[one.key.quantity, one.key.source] += one.readings or 0
    in_input = max(counts.values(), default=None)
    if summary is None:
        return in_input
    return max(summary.readings_count, in_input or 0)


def _lifetime_s(state: SandboxState) -> float | None:
    """Return how long it lived: as its summary says, else from the end of its start span to its stop."""
    start, stop_ns, summary = state.start.value, state.stop_ns.value, state.summary.value
    if summary is not None:
        return summary.lifetime_s
    if start is None or not stop_ns or not 0 < start.end_ns <= stop_ns:
        return None
    return (stop_ns - start.end_ns) / 1e9


def _outlived_s(series: Iterable[Series], ends_ns: Iterable[int | None]) -> float | None:
    """Return for how long it was still read after it should have been gone."""
    last_ns, known = max((one.last_ns or 0 for one in series), default=0), [end for end in ends_ns if end]
    return (last_ns - min(known)) / 1e9 if known and last_ns > min(known) else None
