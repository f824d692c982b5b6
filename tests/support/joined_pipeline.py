"""The whole pipeline but for Gym: a deployment, the poller, a real Collector with the joined file, and its backends."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandgauge_demo.collector import JOINED, RunningCollector
from sandgauge_demo.deployment import DeploymentSettings
from support.otlp_sink import OtlpSink
from support.real_collector import collector, complaints
from support.running_poller import RunningPoller
from support.simulated_osb import SimulatedOsb, osb_in_thread


@dataclass(frozen=True, slots=True)
class JoinedPipeline:
    """Its parts; what came of a run can still be read when they have ended."""

    osb: SimulatedOsb
    otelcol: RunningCollector
    poller: RunningPoller
    backends: OtlpSink

    def joined_lines(self) -> list[dict[str, Any]]:
        """Return the lines of the joined file."""
        return [json.loads(line) for line in self.otelcol.joined_file.read_text().splitlines()]

    def complaints(self) -> list[str]:
        """Return what poller and Collector logged of things that went wrong."""
        return self.poller.complaints() + complaints(self.otelcol)


@contextmanager
def joined_pipeline(
    directory: Path, *, deployment: DeploymentSettings | None = None, **sections: Any
) -> Iterator[JoinedPipeline]:
    """Run it in the directory with the given sections of the poller's configuration.

    At the end, fail for whatever the backends got that breaks the telemetry contract.
    """
    with osb_in_thread(deployment) as osb, OtlpSink() as backends:
        poller = RunningPoller(directory / "poller")
        with collector(
            directory / "collector",
            JOINED,
            poller=poller.endpoint,
            traces=backends.endpoint,
            metrics=backends.endpoint,
            settings={"JOIN_WINDOW": "500ms"},
        ) as otelcol:
            poller.configure(
                {
                    "deployments": [{"name": "training", "endpoint": osb.url}],
                    "export": {"endpoint": otelcol.endpoint},
                    **sections,
                }
            )
            with poller:
                yield JoinedPipeline(osb, otelcol, poller, backends)
    assert not backends.violations, "\n".join(backends.violations)
