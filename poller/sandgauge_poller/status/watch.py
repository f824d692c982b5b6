"""Readings on their way to the recorder, seen in passing: what the page shows of the last hour."""

from typing import Protocol

from sandgauge_poller.reading.context import RecordSink
from sandgauge_poller.reading.provider import AllocationReading, SampleReading
from sandgauge_poller.reading.usage.loop import UsageSink
from sandgauge_poller.reading.usage.source import Kills, UsageAnswer
from sandgauge_poller.tracking.active_set import Tracked
from sandgauge_poller.tracking.recent import Hour, Recent, minute_of
from sandgauge_schemas import names

_CORES = names.METRIC_GYM_SANDBOX_CPU_USED_CORES


class Sink(RecordSink, UsageSink, Protocol):
    """Where readings of either kind become records."""


class WatchedRecorder:
    """The reading loops' sink: keeps each reading's numbers with its sandbox, and hands it on."""

    def __init__(self, recorder: Sink) -> None:
        self._recorder = recorder
        self.answered = Hour()
        """Readings that gave numbers, each minute."""
        self.failed = Hour()
        """Readings that gave none, each minute."""

    async def sample(self, sandbox: Tracked, reading: SampleReading, missed: int, *, is_final: bool) -> None:
        """Keep and record one reading of the sandbox's daemon."""
        minute = self._count(reading.window.end_ns, failed=reading.error_type is not None)
        recent = _recent(sandbox)
        recent.error_type = reading.error_type
        usage = reading.usage
        if usage is not None:
            recent.cpu_used_percentage = _taken(recent.cpu_used_percentage, minute, usage.cpu_used_percentage)
            recent.memory_used_mib = _taken(recent.memory_used_mib, minute, usage.memory_used_mib)
        await self._recorder.sample(sandbox, reading, missed, is_final=is_final)

    async def usage(self, sandbox: Tracked, answer: UsageAnswer, kills: Kills | None, missed: int) -> None:
        """Keep and record one answer of a usage source; its CPU is that over the source's window, once recorded."""
        minute = self._count(answer.window.end_ns, failed=answer.error_type is not None)
        recent = _recent(sandbox)
        recent.usage_error_type = answer.error_type
        means = _means(sandbox)
        await self._recorder.usage(sandbox, answer, kills, missed)
        if answer.observation is not None:
            working_set_mib = answer.observation.memory_working_set_mib
            recent.memory_working_set_mib = _taken(recent.memory_working_set_mib, minute, working_set_mib)
        if _means(sandbox) > means:
            cores = sandbox.progress.statistics[_CORES].last
            recent.cpu_used_cores = _taken(recent.cpu_used_cores, minute, cores)

    async def allocation(self, sandbox: Tracked, reading: AllocationReading) -> None:
        """Record an allocation if it changed."""
        await self._recorder.allocation(sandbox, reading)

    async def ended(self, sandbox: Tracked) -> None:
        """Close the series of a sandbox that is read no more."""
        await self._recorder.ended(sandbox)

    async def summary(self, sandbox: Tracked) -> None:
        """Record how the sandbox lived and ended."""
        await self._recorder.summary(sandbox)

    async def changed(self, sandbox: Tracked) -> None:
        """Keep progress that no record carries."""
        await self._recorder.changed(sandbox)

    def _count(self, time_ns: int, *, failed: bool) -> int:
        minute = minute_of(time_ns)
        (self.failed if failed else self.answered).add(minute, 1)
        return minute


def _means(sandbox: Tracked) -> int:
    """Return how many means of its CPU there were so far."""
    cores = sandbox.progress.statistics.get(_CORES)
    return 0 if cores is None else cores.count


def _recent(sandbox: Tracked) -> Recent:
    if sandbox.recent is None:
        sandbox.recent = Recent()
    return sandbox.recent


def _taken(hour: Hour | None, minute: int, value: float | None) -> Hour | None:
    """Return the hour with the value in it, begun with the first."""
    if value is None:
        return hour
    hour = Hour() if hour is None else hour
    hour.raise_to(minute, value)
    return hour
