"""Answers of Docker's Engine API in the shape of a real one, with secrets where a real one has them."""

import json
from collections.abc import Mapping
from typing import Any

CONTAINER_ID = "ab" * 32
NEVER = "0001-01-01T00:00:00Z"
SECRET = "s3cret-of-a-sandbox"


def inspect_answer(
    *,
    id_: str = CONTAINER_ID,
    name: str = "nemo-gym-1",
    state: Mapping[str, Any] | None = None,
    host: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the answer to an inspect; `state` and `host` override what a running container without limits shows."""
    usual_state = {
        "Status": "running",
        "Running": True,
        "OOMKilled": False,
        "ExitCode": 0,
        "Error": SECRET,
        "StartedAt": "2026-11-30T07:40:00.5Z",
        "FinishedAt": NEVER,
    }
    usual_host = {
        "NanoCpus": 0,
        "CpuPeriod": 0,
        "CpuQuota": 0,
        "CpusetCpus": "",
        "Memory": 0,
        "Binds": [f"/{SECRET}:/x"],
    }
    answer = {
        "Id": id_,
        "Name": f"/{name}",
        "RestartCount": 0,
        "Args": ["-c", f"serve --token {SECRET}"],
        "State": usual_state | dict(state or {}),
        "HostConfig": usual_host | dict(host or {}),
        "Mounts": [{"Type": "bind", "Source": f"/{SECRET}", "Destination": "/x"}],
        "Config": {"Hostname": "0b1c", "Env": [f"TOKEN={SECRET}"], "Labels": {"nemo-gym.sandbox": "1"}},
    }
    return json.dumps(answer).encode()
