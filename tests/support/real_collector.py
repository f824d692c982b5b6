"""A real Collector that runs the shipped configuration, for tests."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sandgauge_demo.collector import (
    BASE,
    Destinations,
    RunningCollector,
    find_collector,
    shipped_config,
    source_checkout,
)
from support.direct_session import direct_session
from support.real_parts import require

FLEET = "otelcol.fleet.yaml"
KAFKA = "otelcol.kafka.yaml"
"""Takes the place of SHARDS."""
QUANTITIES = "otelcol.quantities.yaml"
REMOTE_WRITE = "otelcol.remote-write.yaml"
SECURITY = "otelcol.security.yaml"
SHARDS = "otelcol.shards.yaml"

NOBODY = "http://127.0.0.1:9"
"""An address where no test listens: a destination that is away, or that the test has no use for."""

_COMPLAINT = re.compile(r"\t(warn|error|dpanic|panic|fatal)\t|^Error:")


def config_files(*overlays: str) -> tuple[Path, ...]:
    """Return the shipped base file and overlays."""
    root = source_checkout()
    assert root is not None
    return shipped_config(root, BASE, *overlays)


def overlays() -> tuple[str, ...]:
    """Return the shipped overlays that go together, in an order that the Collector takes them in: security last."""
    names = {path.name for path in config_files()[0].parent.glob("otelcol.*.yaml")}
    return (*sorted(names - {KAFKA, SECURITY}), SECURITY)


def real_collector(configuration: Sequence[Path]) -> Path:
    """Return a Collector that accepts the configuration; without one the test is skipped, or fails."""
    root = source_checkout()
    assert root is not None
    found = find_collector(os.environ, root, configuration)
    return require("Collector", found, "run `make collector`, or let SANDGAUGE_OTELCOL name one")


def collector(
    directory: Path,
    *overlays: str | Path,
    poller: str = NOBODY,
    traces: str = NOBODY,
    metrics: str = NOBODY,
    settings: Mapping[str, str] | None = None,
) -> RunningCollector:
    """Return a Collector, not started yet, of the base file and overlays: shipped ones by name, own ones by path."""
    configuration = config_files(*(overlay for overlay in overlays if isinstance(overlay, str)))
    own = tuple(overlay for overlay in overlays if isinstance(overlay, Path))
    return RunningCollector(
        real_collector(configuration),
        configuration + own,
        directory=directory,
        destinations=Destinations(poller=poller, traces=traces, metrics=metrics),
        settings=settings,
    )


def send(running: RunningCollector, request: dict[str, Any]) -> int:
    """Send traces or metrics as Gym does and return the status of the answer."""
    signal = "traces" if "resourceSpans" in request else "metrics"
    with direct_session() as session:
        return session.post(f"{running.endpoint}/v1/{signal}", json=request, timeout=60).status_code


def complaints(running: RunningCollector) -> list[str]:
    """Return the lines of the Collector's log that warn of something or report an error."""
    return [line for line in running.log_file.read_text().splitlines() if _COMPLAINT.search(line)]
