"""A real OpenTelemetry Collector that runs the shipped configuration: find one, start it, stop it.

The demo and the integration tests use it. The configuration lives in `collector-config/` of a source checkout and is
not part of the wheel; the variables set here are explained in `docs/collector.md`.
"""

import hashlib
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandgauge_demo.loopback import HOST, free_ports, is_ok
from sandgauge_demo.process import ChildProcess, Pause, ProcessError

BASE = "otelcol.yaml"
JOINED = "otelcol.joined.yaml"
"""The shipped files: the base, and the overlay that writes the joined file."""

JOINED_FILE = "joined.jsonl"
"""Name of the joined file in the folder of a Collector that runs here."""

_CONFIG_FOLDER = "collector-config"
_BINARY = "otelcol-sandgauge"
_NAMES_ON_PATH = (_BINARY, "otelcol-contrib", "otelcol")
_VALIDATE_TIMEOUT_S = 90.0
_START_TIMEOUT_S = 90.0


class CollectorError(Exception):
    """A Collector that was asked for cannot be used; the message says why and what to do."""


def source_checkout() -> Path | None:
    """Return the root of the source checkout this module runs from, or None when it was installed from a wheel."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / _CONFIG_FOLDER / BASE).is_file() else None


def shipped_config(repo_root: Path, *names: str) -> tuple[Path, ...]:
    """Return the paths of shipped configuration files, in the order in which the Collector takes them.

    Raise CollectorError for a file that is not there.
    """
    paths = tuple(repo_root / _CONFIG_FOLDER / name for name in names)
    for path in paths:
        if not path.is_file():
            raise CollectorError(f"{path} is missing: the Collector's configuration comes with a source checkout only")
    return paths


def find_collector(environ: Mapping[str, str], repo_root: Path, config_files: Sequence[Path]) -> Path | None:
    """Return a Collector that accepts `config_files`, or None when there is none.

    `SANDGAUGE_OTELCOL` decides alone when it is set; then PATH is searched, then the cache of `make collector`.
    Raise CollectorError when the Collector named by `SANDGAUGE_OTELCOL` cannot be used.
    """
    if named := environ.get("SANDGAUGE_OTELCOL"):
        binary = Path(named)
        if complaint := _complaint(binary, config_files):
            raise CollectorError(
                f"SANDGAUGE_OTELCOL={named} cannot be used: {complaint}. "
                f"Name a Collector with the parts of {_CONFIG_FOLDER}/builder.yaml, or unset it."
            )
        return binary.absolute()
    candidates = [*_on_path(environ), *_built(environ, repo_root)]
    return next((binary for binary in candidates if _complaint(binary, config_files) is None), None)


def _on_path(environ: Mapping[str, str]) -> list[Path]:
    found = (shutil.which(name, path=environ.get("PATH", "")) for name in _NAMES_ON_PATH)
    return [Path(path).absolute() for path in found if path]


def _built(environ: Mapping[str, str], repo_root: Path) -> list[Path]:
    """List what `collector-config/build.sh` built from the present builder.yaml, whichever Go it was built with."""
    builder = repo_root / _CONFIG_FOLDER / "builder.yaml"
    if not builder.is_file():
        return []
    key = hashlib.sha256(builder.read_bytes()).hexdigest()[:16]
    cache = Path(environ.get("SANDGAUGE_CACHE") or repo_root / "_build").absolute()
    return sorted(cache.glob(f"collector-{key}-*/{_BINARY}"))


def _complaint(binary: Path, config_files: Sequence[Path]) -> str | None:
    """Say why `binary` cannot run the configuration, or None: `validate` tries its parts and its version at once."""
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Collector, no shell
            [binary.absolute(), "validate", *_config_arguments(config_files)],
            env={},
            capture_output=True,
            text=True,
            timeout=_VALIDATE_TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        return f"it does not start ({error.strerror})"
    except subprocess.TimeoutExpired:
        return f"`validate` did not end within {_VALIDATE_TIMEOUT_S:.0f} s"
    if answer.returncode == 0:
        return None
    said = (answer.stderr or answer.stdout).strip()
    return f"`validate` of the shipped configuration ended with {answer.returncode}: {said}"


def _config_arguments(config_files: Sequence[Path]) -> list[str]:
    return [f"--config={path}" for path in config_files]


@dataclass(frozen=True, slots=True, kw_only=True)
class Destinations:
    """Base URLs that the Collector sends to; it adds `/v1/traces` and `/v1/metrics` itself."""

    poller: str
    traces: str
    metrics: str


class RunningCollector(ChildProcess):
    """A Collector process on free loopback ports, as a context manager.

    `directory` holds everything it writes: its queue folder, `log_file` and, with the joined overlay, `joined_file`.
    `settings` are further variables of the configuration; nothing else of this process's environment reaches it.
    `start` may be called again after `stop` or `kill`: same ports, same queue. At `stop` it writes out what it holds in
    memory, except in the moment after it reports itself healthy, when it just ends.
    """

    def __init__(
        self,
        binary: Path,
        config_files: Sequence[Path],
        *,
        directory: Path,
        destinations: Destinations,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        grpc_port, http_port, health_port, metrics_port = free_ports(4)
        self.endpoint = f"http://{HOST}:{http_port}"
        """Base URL of the OTLP/HTTP receiver."""
        self.self_metrics_url = f"http://{HOST}:{metrics_port}/metrics"
        """The Collector about itself, in the Prometheus text format."""
        self.joined_file = directory / JOINED_FILE
        self._health_port = health_port
        super().__init__(
            "the Collector",
            [str(binary.absolute()), *_config_arguments(config_files)],
            environment={
                "OTELCOL_STATE_DIR": str(directory),
                "OTLP_GRPC_PORT": str(grpc_port),
                "OTLP_HTTP_PORT": str(http_port),
                "OTELCOL_HEALTH_PORT": str(health_port),
                "OTELCOL_METRICS_PORT": str(metrics_port),
                "POLLER_OTLP_ENDPOINT": destinations.poller,
                "TRACES_OTLP_ENDPOINT": destinations.traces,
                "METRICS_OTLP_ENDPOINT": destinations.metrics,
                "JOINED_FILE": str(self.joined_file),
                **(settings or {}),
            },
            log_file=directory / "otelcol.log",
        )

    def start(self, pause: Pause = time.sleep) -> None:
        """Start the process and return once it is healthy.

        Raise CollectorError with the end of its log when it exits first or is not healthy in time.
        """
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        try:
            super().start()
            self.wait_until(
                lambda: is_ok(self._health_port, "/"), timeout_s=_START_TIMEOUT_S, what="healthy", pause=pause
            )
        except ProcessError as error:
            self.kill()
            raise CollectorError(str(error)) from error
        except BaseException:
            self.kill()
            raise
