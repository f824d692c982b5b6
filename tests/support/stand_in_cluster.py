"""An API server in a thread: pods of one namespace with the usage that a test gives them, a new time each second."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from support.http_stub import StubServer
from support.pod_lists import container, pod, pod_list, pod_metrics, pod_metrics_list
from support.served_in_thread import ServedInThread

_METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods"
_PODS = "/api/v1/namespaces/{}/pods?limit=500"


class StandInCluster(ServedInThread):
    """Serves both lists while its context is open. `usage`: by pod, the cpu and memory of each of its containers.

    `killed`: pods whose main container was killed for memory and started again.
    """

    def __init__(self, namespace: str) -> None:
        super().__init__("stand-in-cluster")
        self.usage: dict[str, dict[str, tuple[str, str]]] = {}
        self.killed: set[str] = set()
        self._paths = _METRICS.format(namespace), _PODS.format(namespace)
        self._stub = StubServer()

    @property
    def requests(self) -> list[str]:
        """Return what was asked so far."""
        return self._stub.paths

    def kubeconfig(self, folder: Path) -> Path:
        """Write one that leads here."""
        content = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": self._stub.url}}],
            "users": [{"name": "u", "user": {"token": "hunter2-token"}}],
        }
        file = folder / "kubeconfig"
        file.write_text(json.dumps(content))
        return file

    async def _serve(self) -> None:
        metrics, pods = self._paths
        self._stub.on(metrics, self._answer_metrics)
        self._stub.on(pods, self._answer_pods)
        async with self._stub:
            self._started.set()
            await self._ended.wait()

    async def _answer_metrics(self, _request: web.Request) -> web.StreamResponse:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        items = [pod_metrics(name, timestamp=now, **used) for name, used in self.usage.items()]
        return web.json_response(pod_metrics_list(*items))

    async def _answer_pods(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response(pod_list(*map(self._pod, list(self.usage))))

    def _pod(self, name: str) -> Any:
        killed: dict[str, Any] = {"restarts": 1, "last": "OOMKilled"} if name in self.killed else {}
        others = [container(other) for other in self.usage[name] if other != "sandbox"]
        return pod(name, container(**killed), *others)
