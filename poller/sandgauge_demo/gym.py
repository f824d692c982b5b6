"""A Gym of the demo: it creates and deletes sandboxes over the control plane's own API, and says so in spans.

Requests and starts are recorded through the emitter's neutral API. Stops and rollouts are the spans that stock Gym
makes, here with the join keys. What happens inside the sandboxes is told to the simulated deployment over its control
routes.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Tracer

import sandgauge_emitter
from sandgauge_demo.deployment import SandboxChanges, SandboxState
from sandgauge_demo.deployment.control import PREFIX
from sandgauge_demo.deployment.registry import KILLED
from sandgauge_demo.scenario import Fate, PlannedRequest, PlannedRollout
from sandgauge_schemas import names
from sandgauge_schemas.records import JoinKeys

PROVIDER = "opensandbox"
SERVICE_NAME = "nemo-gym/demo"

_AGENT = "demo-agent"
_TRACER_SCOPE = "sandgauge.demo"
_EXPORT_DELAY_MS = 500
_KILLED_AT_S = 7.0
_HALTED_AT_S = 5.0
_FORGOTTEN_FOR_S = 90
"""Time to live of a sandbox that nobody deletes: long enough to be noticed as a leak."""


async def run(plan: Sequence[PlannedRollout], *, opensandbox: str, collector: str, run_id: str) -> None:
    """Live through all rollouts of a run, side by side; both addresses are base URLs.

    Raise an ExceptionGroup of aiohttp.ClientError where the simulated deployment does not answer.
    """
    async with (
        _gym_tracer(collector, run_id) as tracer,
        aiohttp.ClientSession(opensandbox) as http,
        asyncio.TaskGroup() as group,
    ):
        gym = _Gym(http, opensandbox, tracer, run_id)
        for rollout in plan:
            group.create_task(gym.rollout(rollout))


@asynccontextmanager
async def _gym_tracer(collector: str, run_id: str) -> AsyncIterator[Tracer]:
    """Give a tracer with the resource of a Gym server; what it made is sent when the context ends."""
    resource = Resource({names.SERVICE_NAME: SERVICE_NAME, names.NEMO_RUN_ID: run_id})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"{collector}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=_EXPORT_DELAY_MS))
    try:
        yield provider.get_tracer(_TRACER_SCOPE)
    finally:
        await asyncio.to_thread(provider.shutdown)


@dataclass(frozen=True, slots=True)
class _Gym:
    http: aiohttp.ClientSession
    scope: str
    tracer: Tracer
    run_id: str

    async def rollout(self, rollout: PlannedRollout) -> None:
        """Live through one rollout; its span ends last of its trace, as Gym's does."""
        await asyncio.sleep(rollout.begins_in_s)
        attributes = {
            names.NEMO_GYM_SERVER_NAME: _AGENT,
            names.NEMO_RUN_ID: self.run_id,
            names.NEMO_GYM_ROLLOUT_ID: rollout.rollout_id,
        }
        with self.tracer.start_as_current_span(names.SPAN_GYM_ROLLOUT, attributes=attributes):
            async with asyncio.TaskGroup() as group:
                for request in rollout.requests:
                    group.create_task(self._request(rollout, request))
        print(f"rollout {rollout.rollout_id} of {self.run_id} is over", flush=True)  # noqa: T201 - the log of this process

    async def _request(self, rollout: PlannedRollout, request: PlannedRequest) -> None:
        """Record a request, bring its sandboxes up, let them live, and delete them."""
        handle = sandgauge_emitter.record_request(
            provider=PROVIDER,
            resources=request.requested,
            count=request.count,
            run_id=self.run_id,
            rollout_id=rollout.rollout_id,
        )
        sandbox_ids = []
        for _ in range(request.count):
            try:
                sandbox_ids.append(await self._create(request))
            except aiohttp.ClientResponseError as error:
                handle.failed(type(error).__name__)
                continue
            handle.started(
                sandbox_ids[-1],
                submitted_limits=request.submitted,
                sdk_default=True if request.submitted is None else None,
                scope=self.scope,
            )
        async with asyncio.TaskGroup() as lives:
            for sandbox_id in sandbox_ids:
                keys = JoinKeys(
                    run_id=self.run_id,
                    rollout_id=rollout.rollout_id,
                    request_id=handle.request_id,
                    sandbox_id=sandbox_id,
                    provider=PROVIDER,
                )
                lives.create_task(self._live(keys, request, rollout.seconds))

    async def _create(self, request: PlannedRequest) -> str:
        """Return the id of a new sandbox. Raise ClientResponseError when the control plane refuses."""
        content: dict[str, Any] = {
            "image": {"uri": "python:3.13-slim"},
            # The control plane refuses a sandbox that would run nothing.
            "entrypoint": [] if request.fate is Fate.REFUSED else ["sleep", "infinity"],
            "resourceLimits": dict(request.limits),
        }
        if request.fate is Fate.FORGOTTEN:
            content["timeout"] = _FORGOTTEN_FOR_S
        async with self.http.post("/v1/sandboxes", json=content, raise_for_status=True) as answer:
            sandbox_id = str((await answer.json())["id"])
        await self._simulate(sandbox_id, SandboxChanges(execd_kind=request.execd_kind, usage=request.usage))
        return sandbox_id

    async def _live(self, keys: JoinKeys, request: PlannedRequest, seconds: float) -> None:
        """Let a sandbox live as planned, then delete it within a stop span like Gym's."""
        sandbox_id = keys.sandbox_id or ""
        match request.fate:
            case Fate.OUT_OF_MEMORY:
                await asyncio.sleep(_KILLED_AT_S)
                killed = SandboxChanges(state=SandboxState.FAILED, exit_code=KILLED, oom_killed=True)
                await self._simulate(sandbox_id, killed)
                await asyncio.sleep(seconds - _KILLED_AT_S)
            case Fate.HALTED:
                await asyncio.sleep(_HALTED_AT_S)
                await self._simulate(sandbox_id, SandboxChanges(execd_stopped=True))
                await asyncio.sleep(seconds / 2)
                await self._simulate(sandbox_id, SandboxChanges(execd_stopped=False))
                await asyncio.sleep(seconds / 2 - _HALTED_AT_S)
            case _:
                await asyncio.sleep(seconds)
        if request.fate is Fate.FORGOTTEN:
            return
        with self.tracer.start_as_current_span(names.SPAN_GYM_SANDBOX_STOP, attributes=keys.to_attributes()):
            async with self.http.delete(f"/v1/sandboxes/{sandbox_id}", raise_for_status=True):
                pass

    async def _simulate(self, sandbox_id: str, changes: SandboxChanges) -> None:
        content = changes.model_dump(mode="json", exclude_none=True)
        async with self.http.patch(f"{PREFIX}/sandboxes/{sandbox_id}", json=content, raise_for_status=True):
            pass
