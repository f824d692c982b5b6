"""Stories of sandboxes, all told at once below one poller: each lives its own life and looks at its own records.

The poller runs as in a company's network: the environment names a proxy, which nothing may use.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandgauge_demo.deployment import DeploymentSettings, Runtime, SimulatedNode
from sandgauge_schemas import names
from support.canary import Canary
from support.lives import Life
from support.otlp_sink import OtlpSink
from support.running_poller import RunningPoller
from support.simulated_osb import SimulatedOsb, osb_in_thread

KEY = "k3y-of-the-control-plane"
INTERVAL_S = 1.0
GRACE_S = 4.0
_NODES = (SimulatedNode(name="node-1"), SimulatedNode(name="node-2"))
_SETTINGS = {
    "docker": DeploymentSettings(api_key=KEY, metrics_delay_s=0.05),
    "kubernetes": DeploymentSettings(api_key=KEY, metrics_delay_s=0.05, runtime=Runtime.KUBERNETES, nodes=_NODES),
    "proxied": DeploymentSettings(api_key=KEY, metrics_delay_s=0.05, proxy_needs_key=True),
}


@dataclass
class World:
    """Three control planes, one poller that reads directly on the first two and by the proxy on the last."""

    osbs: dict[str, SimulatedOsb]
    poller: RunningPoller
    sink: OtlpSink

    def docker(self, **spec: Any) -> Life:
        return self._life("docker", spec)

    def kubernetes(self, **spec: Any) -> Life:
        return self._life("kubernetes", {"node": "node-1", **spec})

    def proxied(self, **spec: Any) -> Life:
        return self._life("proxied", spec)

    def cpu_counts(self, life: Life) -> list[float | None]:
        """Return the values of one of its series in order of time; None is a closing point."""
        points = sorted(self.sink.points(names.METRIC_GYM_SANDBOX_CPU_COUNT), key=lambda point: point.time_ns)
        return [point.value for point in points if point.attributes[names.NEMO_GYM_SANDBOX_ID] == life.id]

    def messages(self) -> list[str]:
        """Return what the poller has logged."""
        return [entry["message"] for entry in self.poller.log()]

    def _life(self, deployment: str, spec: dict[str, Any]) -> Life:
        return Life(self.osbs[deployment], self.poller.endpoint, self.sink, **spec)


class Stories(dict[str, Callable[[World], None]]):
    """The stories of a module by name."""

    def tell(self, story: Callable[[World], None]) -> Callable[[World], None]:
        """Tell this one beside all others; its assertions are the test of its name."""
        self[story.__name__] = story
        return story


@contextmanager
def all_told(stories: Stories, world: World) -> Iterator[dict[str, Future[None]]]:
    """Tell all at once."""
    with ThreadPoolExecutor(len(stories)) as pool:
        yield {name: pool.submit(story, world) for name, story in stories.items()}


@contextmanager
def three_deployments(folder: Path) -> Iterator[World]:
    """Run them and the poller; at the end nothing was called that must not be, and nobody complained."""
    with OtlpSink() as sink, ExitStack() as stack, Canary() as canary, pytest.MonkeyPatch.context() as environment:
        osbs = {name: stack.enter_context(osb_in_thread(settings)) for name, settings in _SETTINGS.items()}
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            environment.setenv(name, canary.url)
            environment.setenv(name.lower(), canary.url)
        environment.setenv("NO_PROXY", "10.0.0.0/8,.internal")
        poller = RunningPoller(folder, _config(osbs, sink))
        with poller:
            yield World(osbs, poller, sink)
            assert canary.calls == 0
        assert poller.complaints() == []
        assert sink.violations == []


def _config(osbs: dict[str, SimulatedOsb], sink: OtlpSink) -> dict[str, Any]:
    return {
        "deployments": [
            {
                "name": name,
                "endpoint": osb.url,
                "api_key": KEY,
                "use_server_proxy": "true" if name == "proxied" else "false",
                "max_requests_per_second": 200,
            }
            for name, osb in osbs.items()
        ],
        "sampling": {"collection_interval": f"{INTERVAL_S}s", "min_interval": "500ms"},
        "allocation": {"refresh_interval": "1s"},
        "tracking": {"orphan_grace": f"{GRACE_S}s", "summary_delay": "3s"},
        "export": {"endpoint": sink.endpoint},
    }
