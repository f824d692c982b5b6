"""What is odd in a configuration, though not wrong."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from sandgauge_poller.config.errors import Fault
from sandgauge_poller.config.model import Config

_OTLP_GRPC_PORT = 4317
_EXECD_MEASURES_S = 1.0


def advise(config: Config) -> Iterator[Fault]:
    """Yield what people meant otherwise more often than not."""
    if urlsplit(config.export.endpoint).port == _OTLP_GRPC_PORT:
        reason = "has port 4317, where Collectors take gRPC"
        yield Fault(("export", "endpoint"), reason, "name the port of OTLP over HTTP, most often 4318")
    if not config.export.traces:
        yield Fault(("export", "traces"), "is false, so nothing is read", "set it to true to read sandboxes")
    # execd's answer takes a second, because it measures CPU over one.
    reads_execd = not config.deployments or any(deployment.execd for deployment in config.deployments)
    if reads_execd and config.sampling.collection_interval and config.sampling.timeout <= _EXECD_MEASURES_S:
        reason = "is no longer than a reading takes, so every reading will fail"
        yield Fault(("sampling", "timeout"), reason, "write 2s or more")
    yield from _of_deployments(config)
    yield from _of_certificates(config)


def _of_deployments(config: Config) -> Iterator[Fault]:
    daemons = [index for index, deployment in enumerate(config.deployments) if deployment.provider == "docker"]
    for index in daemons[1:]:
        reason = "is another Docker daemon, and Gym's docker provider does not say which one a sandbox is on"
        yield Fault(("deployments", index, "provider"), reason, "run a poller for each of them")
    for index, deployment in enumerate(config.deployments):
        sources = [source.deployments or (deployment.name,) for source in config.usage_sources]
        if not deployment.execd and not any(deployment.name in served for served in sources):
            reason = "is false, and no usage source serves this deployment: nothing tells what its sandboxes use"
            yield Fault(("deployments", index, "execd"), reason, "name a source under usage, or leave this out")


def _of_certificates(config: Config) -> Iterator[Fault]:
    if config.export.tls.insecure_skip_verify:
        yield _unverified(("export", "tls", "insecure_skip_verify"))
    certificates = {"deployments": [d.tls for d in config.deployments], "usage": [u.tls for u in config.usage]}
    for section, settings in certificates.items():
        for index, tls in enumerate(settings):
            if tls.insecure_skip_verify:
                yield _unverified((section, index, "tls", "insecure_skip_verify"))


def _unverified(path: tuple[str | int, ...]) -> Fault:
    return Fault(path, "is true, so anyone on the way can pose as the server", "name its authority in ca_file instead")
