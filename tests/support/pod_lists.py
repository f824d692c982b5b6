"""Lists of pods as an API server serves them, of any length; the numbers are invented."""

import json
from collections.abc import Sequence
from typing import Any

TIMESTAMP = "2026-11-30T07:56:01Z"


def pod_metrics(
    name: str,
    *,
    namespace: str = "osb",
    timestamp: str = TIMESTAMP,
    window: str = "15.003s",
    **containers: tuple[str, str],
) -> Any:
    """Return an item of a `PodMetricsList`; each container is its cpu and its memory."""
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "creationTimestamp": "2026-11-30T07:56:02Z",
            "labels": {"opensandbox.io/id": name, "app": "sandbox", "pool": "training"},
        },
        "timestamp": timestamp,
        "window": window,
        "containers": [
            {"name": container, "usage": {"cpu": cpu, "memory": memory}}
            for container, (cpu, memory) in (containers or {"sandbox": ("250m", "64Mi")}).items()
        ],
    }


def pod_metrics_list(*items: Any, **metadata: str) -> Any:
    return {
        "kind": "PodMetricsList",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": metadata,
        "items": list(items),
    }


def many_pod_metrics(names: Sequence[str], *, timestamp: str = TIMESTAMP) -> bytes:
    """Return a list of pods of two containers each, with numbers of the length that real ones have."""
    return json.dumps(
        pod_metrics_list(
            *(
                pod_metrics(
                    name,
                    timestamp=timestamp,
                    window=f"15.{at % 1_000:03d}s",
                    egress=(f"{1_234_572 + at}n", f"{9_216 + at}Ki"),
                    sandbox=(f"{612_348_296 + at}n", f"{83_148 + at}Ki"),
                )
                for at, name in enumerate(names)
            )
        ),
        separators=(",", ":"),
    ).encode()


def pod(name: str, *containers: Any, started: str = "2026-11-30T07:00:00Z", **status: Any) -> Any:
    """Return a pod as the core API has it, with a secret where real ones have theirs."""
    environment = [{"name": "API_KEY", "value": "hunter2-of-the-pod"}]
    return {
        "metadata": {"name": name, "namespace": "osb", "uid": f"uid-of-{name}"},
        "spec": {"containers": [{"name": "sandbox", "env": environment}], "nodeName": "node-1"},
        "status": {"phase": "Running", "startTime": started, "containerStatuses": list(containers), **status},
    }


def container(name: str = "sandbox", *, restarts: int = 0, started: str = "2026-11-30T07:00:02Z", **states: Any) -> Any:
    """Return the status of a container; `last` is why its former life ended, `ended` why its present one did."""
    last, ended = states.get("last"), states.get("ended")
    return {
        "name": name,
        "restartCount": restarts,
        "state": {"terminated": {"reason": ended}} if ended else {"running": {"startedAt": started}},
        "lastState": {"terminated": {"reason": last, "exitCode": 137}} if last else {},
    }


def pod_list(*items: Any, **metadata: Any) -> Any:
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(items)}
