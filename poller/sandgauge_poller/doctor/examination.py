"""All checks, in the order in which a span meets what they are about."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from sandgauge_poller.config import Config, ConfigErrors, find_config, load_config
from sandgauge_poller.doctor import (
    cluster,
    collector,
    control_plane,
    docker_daemon,
    kafka,
    listeners,
    live_sandbox,
    open_files,
    scopes,
    start_spans,
    state_folder,
    usage,
)
from sandgauge_poller.doctor.finding import Finding, failed, passed, warned
from sandgauge_poller.doctor.running_poller import find_running, unmatched

_WHAT = "configuration"


def examine(config_file: Path | None, environ: Mapping[str, str], cwd: Path) -> Iterator[Finding]:
    """Yield findings as they are made; a configuration that does not load is the last of them."""
    try:
        path = find_config(config_file, environ, cwd)
        config = load_config(path, environ)
    except ConfigErrors as errors:
        for error in errors.errors:
            place = f"{error.file}:{error.line}: {error.key}: " if error.key else f"{error.file}:{error.line}: "
            yield failed(_WHAT, f"{place}{error.reason}", error.cure)
        return
    yield passed(_WHAT, str(path))
    for warning in config.warnings:
        yield warned(_WHAT, f"{warning.file}:{warning.line}: {warning.key}: {warning.reason}", warning.cure)
    yield from _examine(config, environ)


def _examine(config: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    yield from state_folder.examine(config.state.directory)
    yield from start_spans.examine(config.state.directory, time.time_ns())
    yield open_files.examine(config)
    running = find_running(config.status)
    yield from listeners.examine(config, running)
    yield from kafka.examine(config.ingest.kafka)
    yield from scopes.examine(config.deployments)
    if running is not None:
        yield from unmatched(running, config.status)
    for deployment in config.deployments:
        if deployment.provider == "docker":
            yield docker_daemon.examine(deployment)
        else:
            running_there = yield from control_plane.examine(deployment, config.sampling.max_clock_skew, time.time)
            if running_there is not None:
                yield from live_sandbox.examine(deployment, config, running_there)
    for source in config.usage:
        if source.kind == "kubernetes":
            yield from cluster.examine(source, config.state.directory, environ)
        else:
            yield usage.examine(source)
    yield from collector.examine(config.export, time.time)
