"""OpenSandbox as a provider: one deployment's control plane and the daemons of its sandboxes."""

from sandgauge_poller.config import Deployment
from sandgauge_poller.reading.clock import SYSTEM_CLOCK, Clock
from sandgauge_poller.reading.exchange import Bounds
from sandgauge_poller.reading.opensandbox.client import MAX_METRICS_BYTES, ControlPlane
from sandgauge_poller.reading.opensandbox.daemon import DaemonReader
from sandgauge_poller.reading.opensandbox.direct import DirectConnections
from sandgauge_poller.reading.opensandbox.execd import parse_metrics
from sandgauge_poller.reading.opensandbox.inspect import parse_inspect
from sandgauge_poller.reading.provider import AllocationReading, LastAnswer, SampleReading, StatusReading, Usage
from sandgauge_schemas.names import ResourceSource
from sandgauge_schemas.placement import Identity
from sandgauge_schemas.records import Allocation

_SAMPLE_SOURCE = ResourceSource.OPENSANDBOX_EXECD


class OpenSandboxProvider:
    """The `Provider` of one deployment. Construct it in a running loop, since it opens sessions; close it in the same.

    Sandbox ids are taken as the contract's pattern lets them through.
    """

    def __init__(
        self,
        deployment: Deployment,
        *,
        sample_timeout_s: float,
        allocation_timeout_s: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._scope = deployment.endpoint
        self._control_plane = ControlPlane(
            deployment,
            timeout_s=allocation_timeout_s,
            metrics_timeout_s=sample_timeout_s,
            clock=clock,
        )
        self._connections = DirectConnections(deployment.tls, Bounds(sample_timeout_s, MAX_METRICS_BYTES), clock=clock)
        self._daemon = DaemonReader(deployment, self._control_plane, self._connections, clock=clock)

    async def read_allocation(self, sandbox_id: str) -> AllocationReading:
        """Read the inspect text, the only place that tells allocation and placement."""
        answer = await self._control_plane.inspect(sandbox_id)
        if answer.error_type is not None:
            source = ResourceSource.OPENSANDBOX_INSPECT
            return AllocationReading(window=answer.window, source=source, error_type=answer.error_type)
        result = parse_inspect(answer.body.decode(errors="replace"))
        return AllocationReading(
            window=answer.window,
            source=result.source,
            error_type=result.error,
            allocation=Allocation(
                components=result.components,
                notes=tuple(sorted(result.notes)),
                designator=self._identity(result.designator_kind, result.designator_id),
                host=self._identity(result.host_kind, result.host_id),
            ),
            oom_killed=result.oom_killed,
            started_ns=result.started_ns,
            restarts=result.restarts,
        )

    async def read_sample(self, sandbox_id: str) -> SampleReading:
        """Read execd's metrics once, by the way that the deployment allows."""
        answer = await self._daemon.read(sandbox_id)
        outcome = parse_metrics(answer.body) if answer.error_type is None else answer.error_type
        if isinstance(outcome, Usage):
            return SampleReading(window=answer.window, source=_SAMPLE_SOURCE, usage=outcome)
        return SampleReading(window=answer.window, source=_SAMPLE_SOURCE, error_type=outcome)

    async def read_status(self, sandbox_id: str) -> StatusReading:
        """Ask for the sandbox itself."""
        return await self._control_plane.read_status(sandbox_id)

    def read_slots(self) -> int | None:
        """Return how many daemon readings the deployment carries at once; None while all are direct."""
        return self._daemon.slots()

    def delay(self) -> float:
        """Return how long a question would wait for its turn, in seconds."""
        return self._control_plane.delay()

    def last_answer(self) -> LastAnswer | None:
        """Return how the control plane itself answered last; what a daemon says through its proxy does not count."""
        return self._control_plane.last_answer

    def forget(self, sandbox_id: str) -> None:
        """Let go of the way to a sandbox that has ended."""
        self._daemon.forget(sandbox_id)

    async def close(self) -> None:
        """Close all connections."""
        await self._control_plane.close()
        await self._connections.close()

    def _identity(self, kind: str | None, id_: str | None) -> Identity | None:
        return Identity(kind, self._scope, id_) if kind and id_ else None
