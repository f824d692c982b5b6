"""A provider as Gym's stand-in in the unit tests knows it, and what switches Gym's sandbox telemetry on."""

import asyncio
from dataclasses import dataclass, field

ON = {"NEMO_GYM_OTEL_ENABLED": "1", "NEMO_GYM_OTEL_SPAN_GROUPS": "default,sandbox"}


@dataclass
class Handle:
    sandbox_id: str


@dataclass
class Spec:
    resources: object = field(default_factory=dict)


class Provider:
    """Makes `fake-1`, `fake-2` and so on."""

    name = "fake"

    def __init__(self):
        self.created = 0
        self.closed = []

    async def create(self, spec):
        self.created += 1
        return Handle(f"fake-{self.created}")

    async def exec(self, handle, command):
        return f"{handle.sandbox_id}: {command}"

    async def close(self, handle):
        await asyncio.sleep(0)
        self.closed.append(handle.sandbox_id)
