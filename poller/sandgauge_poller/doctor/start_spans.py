"""Who makes the start spans: stock Gym alone, stock Gym with the emitter's additions, or the emitter itself."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from sandgauge_poller.doctor.finding import Finding, passed, warned
from sandgauge_poller.tracking import peek
from sandgauge_poller.tracking.migrations import MIGRATIONS
from sandgauge_schemas.wording import number_of

_WHAT = "start spans"
_OF_STOCK_GYM = "nemo.lens.helpers"
_OF_THE_EMITTER = "sandgauge_emitter"
"""Names of the instrumentation scopes."""

_CURE_OF_SILENCE = (
    "turn on Gym's telemetry, or install sandgauge[gym] there, and let the Collector send to ingest.endpoint;"
    " see docs/gym.md and docs/collector.md"
)


class Maker(Enum):
    """Who made a start span."""

    EMITTER = "the emitter's own"
    ENRICHED = "stock Gym's, enriched by the emitter"
    STOCK = "stock Gym's alone"
    UNKNOWN = "with a request, from an unknown instrumentation scope"


def examine(directory: Path, now_ns: int) -> Iterator[Finding]:
    """Yield who made the start spans of the sandboxes known, and the last of them; nothing where no poller ran yet.

    A store that cannot be read is the state folder's finding.
    """
    try:
        if peek.version(directory) != len(MIGRATIONS):
            return
        found, last_ns = peek.starts(directory), peek.last_received_ns(directory)
    except (OSError, sqlite3.Error):
        return
    if last_ns is None:
        yield warned(_WHAT, "no lifecycle span came in within a day", _CURE_OF_SILENCE)
    elif not found:
        yield passed(_WHAT, f"no sandbox is known now; the last lifecycle span came {_ago_s(last_ns, now_ns)} s ago")
    else:
        yield _made(found, now_ns)


def _made(found: list[peek.Starts], now_ns: int) -> Finding:
    counts: Counter[Maker] = Counter()
    for starts in found:
        counts[_maker(starts)] += starts.count
    last = max(found, key=lambda starts: starts.last_received_ns)
    ago_s = _ago_s(last.last_received_ns, now_ns)
    counted = ", ".join(f"{counts[maker]} {maker.value}" for maker in Maker if counts[maker])
    sender = f" from {last.sender}" if last.sender else ""
    detail = (
        f"of {number_of(counts.total(), 'sandbox')} known: {counted};"
        f" the last came {ago_s} s ago{sender} and is {_maker(last).value}"
    )
    if counts[Maker.STOCK]:
        cure = "what was requested and submitted is unknown without it: install sandgauge[gym] where Gym runs"
        return warned(_WHAT, detail, cure)
    return passed(_WHAT, detail)


def _ago_s(then_ns: int, now_ns: int) -> int:
    return max(0, now_ns - then_ns) // 10**9


def _maker(starts: peek.Starts) -> Maker:
    if starts.instrumentation == _OF_THE_EMITTER:
        return Maker.EMITTER
    if not starts.has_request:
        return Maker.STOCK
    return Maker.ENRICHED if starts.instrumentation == _OF_STOCK_GYM else Maker.UNKNOWN
