"""Loading the instrumentation into a process with NeMo Gym, now or as soon as it imports Gym's sandboxes."""

import os
import sys
from collections.abc import Callable, Collection
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from opentelemetry.instrumentation.dependencies import get_dependency_conflicts
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]  # it is untyped
from wrapt import register_post_import_hook

from sandgauge_emitter.faults import FAULTS, LOGGER, warn
from sandgauge_emitter.gym import switches
from sandgauge_emitter.gym.patches import Patches
from sandgauge_emitter.settings import SETTINGS

# Pre-releases count too. Before 0.4 Gym had no sandboxes.
_DEPENDENCIES = ("nemo-gym >= 0.4.0.dev0",)
_AUTOLOAD = "sandgauge_autoload"
# All that Gym has of sandboxes is imported once this package is.
_SANDBOX = "nemo_gym.sandbox"
_API = "nemo_gym.sandbox.api"
_PROVIDERS = "nemo_gym.sandbox.providers"
_REGISTRY = "nemo_gym.sandbox.providers.registry"
_COMPOSE = "nemo_gym.sandbox.adapters.docker_compose"
_OPENSANDBOX_PROVIDER = "nemo_gym.sandbox.providers.opensandbox.provider"
_OPENSANDBOX_CLIENT = "opensandbox.sandbox"
_NATIVE = "nemo_gym.sandbox.resource_telemetry"
"""A Gym that has this module records its sandboxes itself."""


class GymSandboxInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # it is untyped
    """Records the sandboxes of NeMo Gym, if Gym's own switches ask for it; see docs/gym.md.

    NeMo Gym is never imported for it: what is not there yet is wrapped once it is. `uninstrument` gives every original
    back, and keeps this process from being instrumented by itself later on.
    """

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return what must be installed for this to make sense."""
        return _DEPENDENCIES

    def uninstrument(self, **kwargs: Any) -> None:
        """Undo `instrument`, also before Gym is imported or where only `sandgauge.pth` would have called it."""
        autoload = sys.modules.get(_AUTOLOAD)
        if autoload is not None:
            autoload.unregister()
        super().uninstrument(**kwargs)

    def _instrument(self, **_kwargs: Any) -> None:
        self._instrumentation = _Instrumentation()

    def _uninstrument(self, **_kwargs: Any) -> None:
        self._instrumentation.end()


class _Instrumentation:
    """What is wrapped between one `instrument` and its `uninstrument`."""

    def __init__(self) -> None:
        self._patches = Patches()
        self._is_over = False
        self._when_imported(_SANDBOX, self._wrap_gym)

    def end(self) -> None:
        """Give every original back. What is imported later on is left alone."""
        self._is_over = True
        self._patches.restore()
        SETTINGS.set_defaults({})

    def _when_imported(self, name: str, wrap: Callable[[ModuleType], None]) -> None:
        """Call `wrap` with a module, now or once it is imported; it may fail without harm to the import."""

        def hook(module: ModuleType) -> None:
            with FAULTS.guard(f"instrumenting {name}"):
                if not self._is_over:
                    wrap(module)

        register_post_import_hook(hook, name)

    def _wrap_gym(self, package: ModuleType) -> None:
        asked = _asked_for()
        if asked is None:
            return
        # Late, so that a process without telemetry never loads them.
        from sandgauge_emitter import tracing  # noqa: PLC0415
        from sandgauge_emitter.gym import compose, submission  # noqa: PLC0415
        from sandgauge_emitter.gym.lifecycle import Lifecycle  # noqa: PLC0415

        tracing.preload()
        lifecycle = Lifecycle(self._patches, asked.sample_interval_s)
        wrap = self._patches.wrap

        def wrap_exported(exporting: ModuleType) -> None:
            # By now each package has taken the registry's function over under a name of its own.
            if "get_provider_class" in vars(exporting):
                wrap(exporting, "get_provider_class", lifecycle.get_provider_class)

        wrap_exported(package)
        self._when_imported(_PROVIDERS, wrap_exported)
        self._when_imported(_API, lambda module: wrap(module.AsyncSandbox, "start", lifecycle.start))
        self._when_imported(_REGISTRY, lambda module: wrap(module, "get_provider_class", lifecycle.get_provider_class))
        self._when_imported(_COMPOSE, lambda module: wrap(module.AsyncSandboxCompose, "start", compose.start))
        self._when_imported(_OPENSANDBOX_PROVIDER, lambda module: lifecycle.watch(module.OpenSandboxProvider))
        self._when_imported(_OPENSANDBOX_CLIENT, lambda module: wrap(module.Sandbox, "create", submission.create))


def _asked_for() -> switches.Switches | None:
    """Return the switches where Gym's user wants sandboxes recorded, and it is for us to do."""
    if find_spec(_NATIVE) is not None:
        LOGGER.info("NeMo Gym records its sandboxes itself, so Sandgauge's emitter stands down")
        return None
    conflict = get_dependency_conflicts(_DEPENDENCIES)
    if conflict is not None and conflict.found is not None:
        LOGGER.info("Sandbox telemetry is off: %s", conflict)
        return None
    asked = switches.read(os.environ)
    for note in asked.notes:
        warn(f"Sandbox telemetry: {note}")
    if not asked.enabled:
        return None
    if not asked.has_group:
        warn(
            "Sandbox telemetry is off: the span group sandbox is not in NEMO_GYM_OTEL_SPAN_GROUPS "
            "(telemetry.span_groups in Gym's configuration); write default,sandbox"
        )
        return None
    SETTINGS.set_defaults(asked.defaults)
    return asked if SETTINGS.enabled else None
