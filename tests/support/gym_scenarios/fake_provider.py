"""A sandbox provider for Gym without any sandbox behind it."""

import asyncio
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from nemo_gym.sandbox.providers import SandboxExecResult, SandboxHandle, SandboxSpec, SandboxStatus
from nemo_gym.sandbox.providers.base import SandboxCreateError

NAME = "fake"
SPEC = SandboxSpec(image="ubuntu:22.04")


class FakeProvider:
    """Creates `fake-1`, `fake-2` and so on at once, and says that every command succeeded.

    Images in `refuses` cannot be created; with `hangs` no creation ever ends, and `creating` tells that one began.
    `idle` holds while no command runs. It can reconnect, link its sandboxes and share volumes among them.
    """

    name = NAME

    def __init__(self, *, refuses: Container[str | None] = (), hangs: bool = False) -> None:
        self.creating = asyncio.Event()
        self.idle = asyncio.Event()
        self._refuses = refuses
        self._hangs = hangs
        self._created = 0
        self._running = 0

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        self.creating.set()
        if self._hangs:
            await asyncio.Event().wait()
        if spec.image in self._refuses:
            raise SandboxCreateError("no capacity")
        self._created += 1
        return self._handle(f"fake-{self._created}")

    async def exec(
        self,
        handle: SandboxHandle,
        command: str,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_s: float | None = None,
        user: str | int | None = None,
    ) -> SandboxExecResult:
        self._running += 1
        self.idle.clear()
        try:
            await asyncio.sleep(0)
            return SandboxExecResult(stdout="", stderr=None, return_code=0)
        finally:
            self._running -= 1
            if not self._running:
                self.idle.set()

    async def upload_file(self, handle: SandboxHandle, source_path: Path, target_path: str) -> None:
        pass

    async def download_file(self, handle: SandboxHandle, source_path: str, target_path: Path) -> None:
        pass

    async def status(self, handle: SandboxHandle) -> SandboxStatus:
        return SandboxStatus.RUNNING

    async def close(self, handle: SandboxHandle) -> None:
        pass

    async def aclose(self) -> None:
        pass

    async def serialize_handle(self, handle: SandboxHandle, *, scope: str | None = None) -> dict[str, Any]:
        return {"sandbox_id": handle.sandbox_id}

    async def connect(self, descriptor: Mapping[str, Any]) -> SandboxHandle:
        return self._handle(descriptor["sandbox_id"])

    def validate_networking(self) -> None:
        pass

    async def network_address(self, handle: SandboxHandle) -> str:
        return "192.0.2.1"

    async def set_hosts(self, handle: SandboxHandle, hosts: Mapping[str, str]) -> None:
        pass

    def shared_volume_options(self, source: str | None, target: str, *, read_only: bool = False) -> dict[str, Any]:
        return {"volumes": [{"name": "shared", "mountPath": target, "readOnly": read_only}]}

    def shared_volume_metadata(self) -> dict[str, str]:
        return {}

    def _handle(self, sandbox_id: str) -> SandboxHandle:
        return SandboxHandle(sandbox_id=sandbox_id, provider_name=self.name, raw=None)
