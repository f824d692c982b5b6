"""The text of `GET …/diagnostics/inspect`, in the three unrelated forms that the server writes.

Lines are joined by a newline, without one at the end; values are neither escaped nor cut, so what a user put into an
environment variable can look like a block of its own.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from sandgauge_demo.deployment.model import (
    EXECD_PORT,
    HTTP_PORT,
    Component,
    Quantities,
    Runtime,
    SandboxState,
    SimulatedSandbox,
)
from sandgauge_demo.deployment.usage import amount
from sandgauge_schemas.quantity import Quantity

NAMESPACE = "opensandbox"

_NEVER = "0001-01-01T00:00:00Z"
_PIDS_LIMIT = 256
_MASKED = ("SECRET", "TOKEN", "PASSWORD", "KEY")
_DOCKER_STATUS = {
    SandboxState.PENDING: "created",
    SandboxState.PAUSED: "paused",
    SandboxState.TERMINATED: "exited",
    SandboxState.FAILED: "exited",
    SandboxState.UNKNOWN: "removing",
}
_POD_PHASE = {
    SandboxState.PENDING: "Pending",
    SandboxState.TERMINATED: "Succeeded",
    SandboxState.FAILED: "Failed",
}


def inspect_text(sandbox: SimulatedSandbox, published_ports: Mapping[int, int]) -> str:
    """Return the text for a sandbox. `published_ports` maps container ports to host ports; only Docker has them."""
    match sandbox.runtime:
        case Runtime.DOCKER:
            return "\n".join(_docker(sandbox, published_ports))
        case Runtime.KUBERNETES:
            return "\n".join(_kubernetes(sandbox))
        case Runtime.FAST_SANDBOX:
            return _fast_sandbox(sandbox)


def _docker(sandbox: SimulatedSandbox, published_ports: Mapping[int, int]) -> Iterator[str]:
    ended = sandbox.has_ended
    yield f"Container ID:   {sandbox.container_id}"
    yield f"Name:           sandbox-{sandbox.id}"
    yield f"Image:          {sandbox.image}"
    yield f"Status:         {_DOCKER_STATUS.get(sandbox.state, 'running')}"
    yield f"Running:        {not ended}"
    yield f"Paused:         {sandbox.state is SandboxState.PAUSED}"
    yield f"OOMKilled:      {sandbox.oom_killed and ended}"  # a killed child does not show while the container runs
    yield f"Exit Code:      {sandbox.exit_code}"
    yield f"Started At:     {_docker_time(sandbox.started_at)}"
    yield f"Finished At:    {_docker_time(sandbox.state_since) if ended else _NEVER}"
    yield from _docker_resources(sandbox.limits)
    yield from ("", "Network:", f"  bridge: {'' if ended else sandbox.address}")
    if published_ports and not ended:
        yield from ("", "Ports:")
        yield from (f"  {inner}/tcp -> 127.0.0.1:{outer}" for inner, outer in sorted(published_ports.items(), key=str))
    labels = {**sandbox.metadata, **_docker_labels(sandbox, published_ports)}
    yield from _block("Labels:", labels)
    yield from ("", "Environment:")
    for name, value in sandbox.environment.items():
        yield f"  {name}={'***' if any(word in name.upper() for word in _MASKED) else value}"


def _docker_resources(limits: Quantities) -> Iterator[str]:
    yield from ("", "Resources:")
    if (cores := amount(limits.get("cpu"), Quantity.to_cores)) is not None:
        yield f"  CPU:          {cores:.2f} cores"
    if (memory_mib := amount(limits.get("memory"), Quantity.to_mebibytes)) is not None:
        yield f"  Memory:       {int(memory_mib)} MiB"
    yield f"  PIDs Limit:   {_PIDS_LIMIT}"


def _docker_labels(sandbox: SimulatedSandbox, published_ports: Mapping[int, int]) -> dict[str, str]:
    labels = {"opensandbox.io/id": sandbox.id}
    if sandbox.expires_at is not None:
        labels["opensandbox.io/expires-at"] = datetime.fromtimestamp(sandbox.expires_at, UTC).isoformat()
    for port, label in ((EXECD_PORT, "embedding-proxy-port"), (HTTP_PORT, "http-port")):
        if port in published_ports:
            labels[f"opensandbox.io/{label}"] = str(published_ports[port])
    return labels


def _docker_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").rstrip("0").rstrip(".") + "Z"


def _kubernetes(sandbox: SimulatedSandbox) -> Iterator[str]:
    scheduled = sandbox.state is not SandboxState.PENDING
    yield f"Pod Name:       {sandbox.id}-0"
    yield f"Namespace:      {NAMESPACE}"
    yield f"Node:           {sandbox.node.name if scheduled else 'N/A'}"
    yield f"Phase:          {_POD_PHASE.get(sandbox.state, 'Running')}"
    yield f"Pod IP:         {sandbox.address if scheduled else None}"
    yield f"Host IP:        {sandbox.node.address if scheduled else None}"
    yield f"Start Time:     {_pod_time(sandbox.started_at) if scheduled else None}"
    if scheduled:
        yield from ("", "Containers:")
        for component in sandbox.components:
            yield from _container_status(sandbox, component)
        yield from ("", "Init Containers:", "  execd-installer:", "    Ready:          True")
        yield "    State:          Terminated (exit=0, reason=Completed)"
        yield from ("", "Conditions:", f"  Ready: {not sandbox.has_ended} (reason=N/A)")
    yield from _block("Labels:", {**sandbox.metadata, "opensandbox.io/id": sandbox.id})
    yield from ("", "Resources:")
    for component in sandbox.components:
        yield f"  {component.name}:"
        if component.requests:
            yield f"    Requests: {dict(sorted(component.requests.items()))}"
        if component.limits:
            yield f"    Limits:   {dict(sorted(component.limits.items()))}"


def _container_status(sandbox: SimulatedSandbox, component: Component) -> Iterator[str]:
    main = component is sandbox.components[0]
    restarted = main and sandbox.oom_killed and not sandbox.has_ended
    yield f"  {component.name}:"
    yield f"    Ready:          {not sandbox.has_ended}"
    yield f"    Restart Count:  {max(sandbox.restarts, int(restarted)) if main else 0}"
    yield f"    Image:          {sandbox.image}"
    if main and sandbox.has_ended:
        reason = "OOMKilled" if sandbox.oom_killed else "Error" if sandbox.exit_code else "Completed"
        yield f"    State:          Terminated (exit={sandbox.exit_code}, reason={reason})"
    else:
        yield f"    State:          Running (since {_pod_time(sandbox.started_at)})"
    if restarted:
        yield "    Last State:     Terminated (exit=137, reason=OOMKilled)"


def _pod_time(seconds: float) -> str:
    return str(datetime.fromtimestamp(int(seconds), UTC))


def _fast_sandbox(sandbox: SimulatedSandbox) -> str:
    ready = "READY" if sandbox.has_address else "STOPPED"
    return json.dumps(
        {
            "sandbox_id": sandbox.id,
            "runtime_state": f"RUNTIME_STATE_{ready}",
            "data_plane_state": f"DATA_PLANE_STATE_{ready}",
            "assignment_state": "Assigned",
            "events": [f"[{int(sandbox.created_at * 1e9)}] INFO node-agent/start: runtime ready"],
        },
        indent=2,
    )


def _block(title: str, values: Mapping[str, str]) -> Iterator[str]:
    yield from ("", title)
    yield from (f"  {name}={value}" for name, value in sorted(values.items()))
