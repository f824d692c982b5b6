"""A resources server in a process of its own: every request starts and stops a sandbox in the caller's trace.

Gym's own middleware takes the rollout id out of the path. The server prints its port, and ends when its stdin does.
"""

import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from nemo_gym.rollout_correlation import RolloutContextMiddleware, current_rollout_id
from nemo_gym.sandbox.api import AsyncSandbox
from opentelemetry import context
from opentelemetry.propagate import extract

from support.gym_scenarios.fake_provider import SPEC, FakeProvider


def main() -> None:
    """Serve until stdin ends."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        print(server.server_port, flush=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        sys.stdin.read()
        server.shutdown()
        thread.join()


async def _verify(scope: dict[str, Any], _receive: Any, send: Any) -> None:
    """Use a sandbox, and say what is left of the path and which rollout this is."""
    token = context.attach(extract({name.decode(): value.decode() for name, value in scope["headers"]}))
    try:
        async with AsyncSandbox(FakeProvider(), SPEC) as sandbox:
            await sandbox.start()
    finally:
        context.detach(token)
    body = json.dumps({"path": scope["path"], "rollout_id": current_rollout_id()}).encode()
    await send({"type": "http.response.body", "body": body})


class _Handler(BaseHTTPRequestHandler):
    """As little of an ASGI server as the application needs."""

    application = RolloutContextMiddleware(_verify)

    def do_POST(self) -> None:
        headers = [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]
        scope = {"type": "http", "path": self.path, "headers": headers}

        async def send(message: dict[str, Any]) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(message["body"])))
            self.end_headers()
            self.wfile.write(message["body"])

        asyncio.run(self.application(scope, None, send))

    def log_message(self, *_arguments: Any) -> None:
        pass
