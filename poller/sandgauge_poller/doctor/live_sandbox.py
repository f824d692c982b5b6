"""One running sandbox of a control plane: can it be read directly, whose machine is read, do the slots carry all."""

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from sandgauge_poller.config import Config, Deployment, ProxyUse, format_duration
from sandgauge_poller.doctor.control_plane import Running
from sandgauge_poller.doctor.cures import CURES
from sandgauge_poller.doctor.finding import Finding, failed, passed, warned
from sandgauge_poller.doctor.live_reading import scopes_of
from sandgauge_poller.reading.clock import SYSTEM_CLOCK
from sandgauge_poller.reading.context import SECONDS_A_READ
from sandgauge_poller.reading.opensandbox.provider import OpenSandboxProvider
from sandgauge_poller.reading.provider import AllocationReading, SampleReading, Usage
from sandgauge_schemas.names import ErrorType, SampleScope
from sandgauge_schemas.wording import number_of

_NOT_NAMED = (ErrorType.ENDPOINT_NOT_ALLOWED, ErrorType.UNRECOGNIZED_FORMAT)


def examine(deployment: Deployment, config: Config, running: Running) -> Iterator[Finding]:
    """Yield what was found; nothing is read where a poller would read nothing."""
    if config.sampling.collection_interval:
        yield from _examine(deployment, config, running)


def _examine(deployment: Deployment, config: Config, running: Running) -> Iterator[Finding]:
    what, use = f"deployment {deployment.name}", deployment.use_server_proxy
    allocation = asyncio.run(_inspect(deployment, config, running.sandbox_id))
    if allocation.error_type is not None:
        detail = f"what is in force for a running sandbox is unknown ({allocation.error_type.value})"
        yield warned(what, detail, CURES[allocation.error_type])
    if not deployment.execd:
        return
    sample = None
    if use is not ProxyUse.ALWAYS:
        sample = asyncio.run(_sample(deployment, config, running.sandbox_id, ProxyUse.NEVER))
        yield _directly(what, sample, use)
    if use is not ProxyUse.NEVER and (sample is None or sample.usage is None):
        sample = asyncio.run(_sample(deployment, config, running.sandbox_id, ProxyUse.ALWAYS))
        yield from _slots(what, deployment, config, running.count)
    if allocation.error_type is None and sample is not None and sample.usage is not None:
        yield _whose(what, allocation, sample, sample.usage, has_source=_has_source(deployment, config))


async def _inspect(deployment: Deployment, config: Config, sandbox_id: str) -> AllocationReading:
    async with _provider(deployment, config) as provider:
        return await provider.read_allocation(sandbox_id)


async def _sample(deployment: Deployment, config: Config, sandbox_id: str, use: ProxyUse) -> SampleReading:
    async with _provider(deployment.model_copy(update={"use_server_proxy": use}), config) as provider:
        return await provider.read_sample(sandbox_id)


@asynccontextmanager
async def _provider(deployment: Deployment, config: Config) -> AsyncIterator[OpenSandboxProvider]:
    provider = OpenSandboxProvider(
        deployment,
        sample_timeout_s=config.sampling.timeout,
        allocation_timeout_s=config.allocation.timeout,
        clock=SYSTEM_CLOCK,
    )
    try:
        yield provider
    finally:
        await provider.close()


def _directly(what: str, direct: SampleReading, use: ProxyUse) -> Finding:
    if direct.error_type is None:
        return passed(what, "a running sandbox can be read directly")
    detail = f"a running sandbox cannot be read directly ({direct.error_type.value})"
    if use is ProxyUse.AUTO:
        if direct.error_type is ErrorType.ENDPOINT_NOT_ALLOWED:
            return passed(what, f"{detail}, so all are read through the proxy")
        return warned(what, f"{detail}, so the proxy is taken", CURES[direct.error_type])
    if direct.error_type in _NOT_NAMED:
        return failed(what, detail, CURES[direct.error_type])
    return warned(what, detail, f"{CURES[direct.error_type]}; or set use_server_proxy: auto")


def _slots(what: str, deployment: Deployment, config: Config, count: int | None) -> Iterator[Finding]:
    """Yield whether the proxied reads at once carry as many sandboxes as run; nothing where the list does not tell."""
    if count is None:
        return
    slots, asked_s = deployment.max_concurrent_proxied_reads, config.sampling.collection_interval
    needed_s = count * SECONDS_A_READ / slots
    if needed_s <= asked_s:
        carried = math.floor(slots * asked_s / SECONDS_A_READ)
        carries = f"its {slots} proxied reads at once carry {number_of(carried, 'sandbox')} every {_shown(asked_s)}"
        yield passed(what, f"{carries}; {count:,} running")
        return
    running = number_of(count, "sandbox")
    detail = f"{running} running: its {slots} proxied reads at once carry them every {_shown(needed_s)}"
    wanted = math.ceil(count * SECONDS_A_READ / asked_s)
    cure = (
        f"to keep to {_shown(asked_s)} raise max_concurrent_proxied_reads to {wanted},"
        " or let them be reached directly (allowed_endpoint_hosts)"
    )
    yield warned(what, detail, cure)


def _shown(seconds: float) -> str:
    return format_duration(math.ceil(seconds) if seconds > 1 else seconds)


def _whose(
    what: str, allocation: AllocationReading, sample: SampleReading, usage: Usage, *, has_source: bool
) -> Finding:
    scopes = scopes_of(allocation, sample)
    scope = SampleScope.UNKNOWN if scopes is None else scopes.memory.scope
    if scope is SampleScope.SANDBOX:
        return passed(what, "the memory that a running sandbox tells is its own")
    if scope is SampleScope.NODE:
        detail = f"the numbers of a running sandbox describe its node (memory {usage.memory_total_mib:,.0f} MiB)"
    else:
        evidence = "" if scopes is None else f" ({scopes.memory.evidence.value})"
        detail = f"whose machine the numbers of a running sandbox describe cannot be told{evidence}"
    if has_source:
        return passed(what, f"{detail}, and a usage source sees sandboxes themselves")
    return warned(what, detail, "name a usage source, which sees sandboxes themselves; see docs/usage.md")


def _has_source(deployment: Deployment, config: Config) -> bool:
    return any(not source.deployments or deployment.name in source.deployments for source in config.usage_sources)
