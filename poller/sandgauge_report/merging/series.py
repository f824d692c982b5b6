"""The statistics of a sandbox's readings, from its samples and its summary; never of two sources together."""

from collections import defaultdict
from collections.abc import Iterator

from sandgauge_report.merging.distinct import DistinctReadings
from sandgauge_report.merging.quantities import Quantity, SeriesKey
from sandgauge_report.merging.sandbox_state import SandboxState
from sandgauge_report.merging.sandboxes import Series
from sandgauge_schemas.names import Resource, ResourceSource, SampleScope
from sandgauge_schemas.records import Statistics, SummaryRecord

PERCENT = 95
"""The percentile that a report shows."""

_ByScope = dict[SampleScope, DistinctReadings]


def series_of(state: SandboxState) -> Iterator[Series]:
    """Yield statistics by quantity, source and scope.

    The summary has counted every reading, the input may lack some: so its numbers are taken, unless the samples are
    more, or show that the machine behind the numbers changed in between. The percentile is always the samples'.
    """
    sampled: defaultdict[tuple[Quantity, str], _ByScope] = defaultdict(dict)
    for key, readings in state.readings.items():
        sampled[key.quantity, key.source][key.scope] = readings
    told = dict(_told(state.summary.value))
    summarised = {(key.quantity, key.source): key for key in told}
    for pair in sorted(sampled.keys() | summarised.keys()):
        by_scope, summary_key = sampled.get(pair, {}), summarised.get(pair)
        if summary_key is not None and _has_all(summary_key.scope, told[summary_key][1], by_scope):
            yield _of_summary(summary_key, *told[summary_key], by_scope.get(summary_key.scope))
        else:
            for scope, readings in by_scope.items():
                yield of_readings(SeriesKey(*pair, scope), readings)


def _has_all(scope: SampleScope, count: int | None, by_scope: _ByScope) -> bool:
    """Tell whether a summary counts at least the readings of the input, and all of the same machine."""
    if not by_scope:
        return True
    is_one_machine = by_scope.keys() <= {scope, SampleScope.UNKNOWN}
    are_counted = all(readings.is_exact for readings in by_scope.values())
    in_input = sum(readings.count for readings in by_scope.values())
    return is_one_machine and count is not None and (count >= in_input or not are_counted)


def _told(summary: SummaryRecord | None) -> Iterator[tuple[SeriesKey, tuple[Statistics, int | None]]]:
    """Yield what a summary says; it counts execd's readings, or where execd was never asked the usage source's."""
    if summary is None:
        return
    of_execd = any(
        quantity in summary.statistics for quantity in (Quantity.CPU_USED_PERCENTAGE, Quantity.MEMORY_USED_MIB)
    )
    for quantity in Quantity:
        if (statistics := summary.statistics.get(quantity)) is None:
            continue
        if quantity.is_of_usage_source:
            key = SeriesKey(quantity, summary.usage_source or "", SampleScope.SANDBOX)
            yield key, (statistics, None if of_execd else summary.readings_count)
        else:
            said = summary.cpu_scope if quantity.resource is Resource.CPU else summary.memory_scope
            scope = SampleScope(said) if said in set(SampleScope) else SampleScope.UNKNOWN
            yield SeriesKey(quantity, ResourceSource.OPENSANDBOX_EXECD, scope), (statistics, summary.readings_count)


def of_readings(key: SeriesKey, readings: DistinctReadings) -> Series:
    """Return the statistics of readings alone."""
    return Series(
        key=key,
        readings=readings.count,
        is_exact=readings.is_exact,
        min=readings.min,
        mean=readings.mean,
        p95=readings.percentile(PERCENT),
        max=readings.max,
        last=readings.last,
        first_ns=readings.first_ns,
        last_ns=readings.last_ns,
        sample=readings,
    )


def _of_summary(key: SeriesKey, statistics: Statistics, count: int | None, readings: DistinctReadings | None) -> Series:
    return Series(
        key=key,
        readings=count,
        is_exact=readings is None or readings.is_exact,
        min=statistics.min,
        mean=statistics.mean,
        p95=None if readings is None else readings.percentile(PERCENT),
        max=statistics.max,
        last=statistics.last,
        first_ns=None if readings is None else readings.first_ns,
        last_ns=None if readings is None else readings.last_ns,
        sample=readings,
    )
