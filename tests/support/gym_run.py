"""A captured run of stock Gym, split as Gym sends it and moved to now: starts, stops, and rollout spans last of all."""

import copy
import time
from typing import Any

from sandgauge_schemas import names
from support.otlp_json import plain

_STOPPING = (names.SPAN_GYM_SANDBOX_STOP,)
_LAST = (names.SPAN_GYM_ROLLOUT,)


class GymRun:
    """One captured request; each part is moved in time when it is taken, so that its last span ends now."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._request = request

    def starts(self) -> dict[str, Any]:
        """Return everything but stops and rollouts: what is there while the sandboxes live."""
        return self._part(lambda name: name not in _STOPPING + _LAST)

    def stops(self) -> dict[str, Any]:
        return self._part(lambda name: name in _STOPPING)

    def rollouts(self) -> dict[str, Any]:
        return self._part(lambda name: name in _LAST)

    def sandbox_ids(self, provider: str) -> list[str]:
        """Return the ids of the provider's sandboxes that came up, in their order."""
        keys = (names.NEMO_GYM_SANDBOX_PROVIDER, names.NEMO_GYM_SANDBOX_ID)
        starts = [plain(span["attributes"]) for span in _spans(self._request) if span["name"].endswith(".start")]
        return [start[keys[1]] for start in starts if start[keys[0]] == provider and keys[1] in start]

    def trace_of(self, sandbox_id: str) -> tuple[str, str]:
        """Return trace id and span id of the start span."""
        for span in _spans(self._request):
            found = plain(span["attributes"]).get(names.NEMO_GYM_SANDBOX_ID)
            if span["name"] == names.SPAN_GYM_SANDBOX_START and found == sandbox_id:
                return span["traceId"], span["spanId"]
        raise KeyError(sandbox_id)

    def _part(self, is_wanted: Any) -> dict[str, Any]:
        request = copy.deepcopy(self._request)
        for resource in request["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                scope["spans"] = [span for span in scope["spans"] if is_wanted(span["name"])]
        spans = _spans(request)
        if spans:
            shift = time.time_ns() - max(int(span["endTimeUnixNano"]) for span in spans)
            for span in spans:
                for key in ("startTimeUnixNano", "endTimeUnixNano"):
                    span[key] = str(int(span[key]) + shift)
        return request


def _spans(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        span for resource in request["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]
    ]
