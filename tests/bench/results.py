"""All figures of a run in one JSON file: every turn as it was measured; medians are for whoever reads them."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from bench.figures import Flood, Late, Minute, Recovery, Requests, Steady
from bench.machine import Machine

FOLDER = Path(__file__).parent / "results"
POLLER, LONG = "poller.json", "long.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What `make bench` measured, turn by turn, in the order of measuring."""

    machine: Machine
    steady: Sequence[Steady] = ()
    hanging: Sequence[Steady] = ()
    recovery: Sequence[Recovery] = ()
    floods: Sequence[Flood] = ()
    requests: Sequence[Requests] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LongResults:
    """What `make bench-long` measured, minute by minute; `churn` is the share of sandboxes replaced each minute.

    `beats`: how many beats of the loop were late by no more than so many ms, and by more than those before it.
    `latest`: those in which the poller held its loop longest.
    """

    machine: Machine
    sandboxes: int
    churn: float
    interval_s: float
    minutes: Sequence[Minute]
    beats: Mapping[str, int] = field(default_factory=dict)
    latest: Sequence[Late] = ()


def save(results: Results | LongResults, name: str) -> None:
    """Write results to the folder of those that are kept, as `POLLER` or `LONG`."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / name).write_text(json.dumps(_rounded(dataclasses.asdict(results)), indent=1) + "\n")


def load() -> Results:
    """Read what `make bench` saved last."""
    return TypeAdapter(Results).validate_json((FOLDER / POLLER).read_text())


def load_long() -> LongResults:
    """Read what `make bench-long` saved last."""
    return TypeAdapter(LongResults).validate_json((FOLDER / LONG).read_text())


def _rounded(tree: Any) -> Any:
    """Round to what can be told from noise."""
    if isinstance(tree, dict):
        return {key: _rounded(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_rounded(value) for value in tree]
    return round(tree, 6) if isinstance(tree, float) else tree
