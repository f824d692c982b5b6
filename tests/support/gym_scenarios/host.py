"""The telemetry of the process around Gym, as the environment asks for it.

- `SCENARIO_FIRST`: Python code to run before all else, Gym not yet imported.
- `SCENARIO_HOST`: if set, the host has an SDK of its own, which exports to `OTEL_EXPORTER_OTLP_ENDPOINT`.
- `SCENARIO_SPAN_GROUPS`: span groups, separated by commas, to enable in nemo-lens by hand.
"""

import importlib
import logging
import os

from opentelemetry import trace


def set_up() -> None:
    """Do what a host does before its first sandbox."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    exec(os.environ.get("SCENARIO_FIRST", ""), {})
    if "SCENARIO_HOST" in os.environ:
        importlib.import_module("support.gym_scenarios.host_sdk").set_up()
    if groups := os.environ.get("SCENARIO_SPAN_GROUPS"):
        importlib.import_module("nemo.lens.state").set_enabled_span_groups(frozenset(groups.split(",")))


def end() -> None:
    """Leave a span of the host's own: where it arrives, every other span would have arrived too."""
    trace.get_tracer("host").start_span("host").end()
