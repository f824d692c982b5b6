"""The switches: what the program said comes before what the environment says."""

import os
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from sandgauge_emitter import inputs
from sandgauge_emitter.faults import FAULTS
from sandgauge_emitter.locks import LOCK

ENABLED_VARIABLE = "SANDGAUGE_ENABLED"
RUN_ID_VARIABLE = "NEMO_GYM_OTEL_RUN_ID"
EXPORTER_VARIABLE = "NEMO_GYM_OTEL_EXPORTER"
SDK_DISABLED_VARIABLE = "OTEL_SDK_DISABLED"

_ON = frozenset({"1", "true", "yes", "on", "t", "y"})
_OFF = frozenset({"", "0", "false", "no", "off", "f", "n"})


class Exporter(StrEnum):
    """Where the emitter's own provider sends spans, as `NEMO_GYM_OTEL_EXPORTER` writes it."""

    OTLP = "otlp"
    CONSOLE = "console"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the program said; None leaves it to the environment."""

    enabled: bool | None = None
    endpoint: str | None = None
    run_id: str | None = None


class CurrentSettings:
    """The settings of this process. The environment is asked each time: a framework may write to it late."""

    def __init__(self) -> None:
        self._said = Settings()
        self._defaults: dict[str, str] = {}
        self._checked_run_id: tuple[str, str | None] = ("", None)
        """What was written last, and what of it a span can hold: it is asked for with every span."""

    def update(self, *, enabled: bool | None, endpoint: str | None, run_id: str | None) -> None:
        """Replace what is not None."""
        with LOCK:
            self._said = replace(
                self._said,
                enabled=self._said.enabled if enabled is None else enabled,
                endpoint=endpoint or self._said.endpoint,
                run_id=run_id or self._said.run_id,
            )

    def set_defaults(self, variables: Mapping[str, str]) -> None:
        """Take variables from a framework's own configuration: each counts where the environment has none."""
        with LOCK:
            self._defaults = dict(variables)

    def forget(self) -> None:
        """Leave everything to the environment again."""
        with LOCK:
            self._said = Settings()
            self._defaults = {}

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that count: those of the process before the defaults."""
        return ChainMap(os.environ, self._defaults)

    @property
    def enabled(self) -> bool:
        """Whether spans are emitted; off unless switched on."""
        said = self._said.enabled
        return _is_on(self._variable(ENABLED_VARIABLE)) if said is None else said

    @property
    def endpoint(self) -> str | None:
        """The Collector's base URL, where the program named it."""
        return self._said.endpoint

    @property
    def run_id(self) -> str | None:
        """The run that this process belongs to, if it is known."""
        said = self._said.run_id
        written = self._variable(RUN_ID_VARIABLE) if said is None else said
        if not written:
            return None
        if written != self._checked_run_id[0]:
            self._checked_run_id = (written, inputs.text(written, RUN_ID_VARIABLE, _complain))
        return self._checked_run_id[1]

    @property
    def exporter(self) -> Exporter:
        """What the emitter's own provider exports to."""
        word = (self._variable(EXPORTER_VARIABLE) or "").strip().lower() or Exporter.OTLP
        if word not in set(Exporter):
            FAULTS.note(f"{EXPORTER_VARIABLE} is neither otlp nor console: otlp is used")
            return Exporter.OTLP
        return Exporter(word)

    @property
    def is_sdk_disabled(self) -> bool:
        """Whether OpenTelemetry's own switch says that nothing is sent, whoever would send it."""
        return (self._variable(SDK_DISABLED_VARIABLE) or "").strip().lower() == "true"

    def _variable(self, name: str) -> str | None:
        # `environment` would look twice, which is much where it is asked for with every span.
        text = os.environ.get(name)
        return self._defaults.get(name) if text is None else text


SETTINGS = CurrentSettings()


def _complain(complaint: str) -> None:
    FAULTS.note(f"{complaint}, so no span has it")


def _is_on(text: str | None) -> bool:
    if text is None:
        return False
    word = text.strip().lower()
    if word in _ON:
        return True
    if word not in _OFF:
        FAULTS.note(f"{ENABLED_VARIABLE} is neither on nor off, so it is off; write 1 or 0")
    return False
