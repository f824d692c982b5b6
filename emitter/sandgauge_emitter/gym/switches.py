"""NeMo Gym's own switches: its variables, and the `telemetry` block of the configuration that its servers inherit."""

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from sandgauge_emitter import inputs
from sandgauge_emitter.settings import ENABLED_VARIABLE, EXPORTER_VARIABLE, RUN_ID_VARIABLE

CONFIG_VARIABLE = "NEMO_GYM_CONFIG_DICT"
INTERVAL_KEY = "sandbox_resource_sample_interval_seconds"

# As Gym names them, and what it falls back to.
_PREFIXES = ("NEMO_GYM_OTEL", "NEMO_LENS")
_TRUE = frozenset({"1", "true", "yes", "on"})
_GROUPS = frozenset({"sandbox", "all"})
# What Gym takes for a bool in its configuration, whatever its capitals.
_YES = frozenset({"1", "on", "t", "true", "y", "yes"})
_NO = frozenset({"0", "off", "f", "false", "n", "no"})
# Which variable each key of the block stands for.
_VARIABLES = {
    "span_groups": "NEMO_GYM_OTEL_SPAN_GROUPS",
    "exporter": EXPORTER_VARIABLE,
    "run_id": RUN_ID_VARIABLE,
    "service_name": "OTEL_SERVICE_NAME",
    "otlp_endpoint": "OTEL_EXPORTER_OTLP_ENDPOINT",
    "otlp_protocol": "OTEL_EXPORTER_OTLP_PROTOCOL",
    "otlp_headers": "OTEL_EXPORTER_OTLP_HEADERS",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What Gym's user asked for.

    `enabled` is telemetry with traces, `has_group` whether the span groups hold the sandboxes. `sample_interval_s` is
    the interval that the run asks for, in seconds. `defaults` are variables that count where the environment has none.
    `notes` say what could not be taken as it is written, without quoting it.
    """

    enabled: bool
    has_group: bool
    sample_interval_s: float | None
    defaults: Mapping[str, str]
    notes: tuple[str, ...]


def read(environment: Mapping[str, str]) -> Switches:
    """Read the switches. The environment comes before the configuration, as in Gym."""
    notes: list[str] = []
    block = _telemetry_block(environment, notes)
    written = _as_variables(block, notes)
    variables = ChainMap(dict(environment), written)
    enabled = _switch(variables, "ENABLED", "").lower() in _TRUE
    traces = _switch(variables, "TRACES_ENABLED", "1").lower() in _TRUE
    groups = {group.strip() for group in _switch(variables, "SPAN_GROUPS", "").lower().split(",")}
    fallbacks = {
        RUN_ID_VARIABLE: _switch(variables, "RUN_ID", ""),
        EXPORTER_VARIABLE: _switch(variables, "EXPORTER", ""),
    }
    return Switches(
        enabled=enabled and traces,
        has_group=bool(groups & _GROUPS),
        sample_interval_s=inputs.number(block.get(INTERVAL_KEY), f"telemetry.{INTERVAL_KEY}", notes.append),
        defaults={**written, **{name: text for name, text in fallbacks.items() if text}, ENABLED_VARIABLE: "1"},
        notes=tuple(notes),
    )


def _switch(variables: Mapping[str, str], name: str, default: str) -> str:
    """Return the first text that is not blank."""
    texts = (variables.get(f"{prefix}_{name}", "").strip() for prefix in _PREFIXES)
    return next(filter(None, texts), default)


def _telemetry_block(environment: Mapping[str, str], notes: list[str]) -> Mapping[str, Any]:
    text = environment.get(CONFIG_VARIABLE, "")
    if "telemetry" not in text:
        return {}  # the rest of the configuration may be long
    try:
        # Late, since only a Gym process has a use for it.
        yaml = import_module("yaml")
        config = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except Exception as error:  # noqa: BLE001  # PyYAML is missing, or the text is none
        notes.append(
            f"{CONFIG_VARIABLE} cannot be read ({type(error).__name__}), so its telemetry block does not count"
        )
        return {}
    block = config.get("telemetry") if isinstance(config, Mapping) else None
    return block if isinstance(block, Mapping) else {}


def _as_variables(block: Mapping[str, Any], notes: list[str]) -> dict[str, str]:
    # Gym takes a false here as unset: a variable of nemo-lens may still switch it on.
    variables = {"NEMO_GYM_OTEL_ENABLED": "1"} if _is_on(block, "enabled", notes) else {}
    traces = _is_on(block, "traces_enabled", notes)
    if traces is not None:
        variables["NEMO_GYM_OTEL_TRACES_ENABLED"] = "1" if traces else "0"
    for key, variable in _VARIABLES.items():
        text = _as_text(block.get(key))
        if text is not None:
            variables[variable] = text
    return variables


def _is_on(block: Mapping[str, Any], key: str, notes: list[str]) -> bool | None:
    """Return a switch, None where it is not set or where only Gym itself can resolve it; text counts as in Gym."""
    value = block.get(key)
    if value is None or "${" in str(value):
        return None
    word = (_as_text(value) or "").lower()
    if word not in _YES | _NO:
        notes.append(f"telemetry.{key} is neither true nor false, so it is off; write true")
    return word in _YES


def _as_text(value: object) -> str | None:
    if isinstance(value, bool):
        return "1" if value else "0"
    if value is None or not isinstance(value, str | int | float):
        return None
    # A reference that only Gym itself can resolve; it has done so in the environment.
    return None if "${" in str(value) else str(value)
