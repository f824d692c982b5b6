"""Between the two encodings of an OTLP trace request, by the protobuf library's own JSON.

That library writes and reads ids in base64, where OTLP's JSON has them in hex.
"""

import base64
from collections.abc import Callable
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_IDS = {"traceId", "spanId", "parentSpanId"}


def to_protobuf(request: dict[str, Any]) -> bytes:
    """Return a request that is written in OTLP's JSON as protobuf."""
    in_base64 = _with_ids(request, lambda id_: base64.b64encode(bytes.fromhex(id_)).decode())
    return json_format.ParseDict(in_base64, ExportTraceServiceRequest()).SerializeToString()


def to_json(request: ExportTraceServiceRequest) -> dict[str, Any]:
    """Return a request as OTLP's JSON has it: ids in hex, 64-bit numbers as text."""
    return _with_ids(json_format.MessageToDict(request), lambda id_: base64.b64decode(id_).hex())


def _with_ids(tree: Any, convert: Callable[[str], str]) -> Any:
    if isinstance(tree, list):
        return [_with_ids(item, convert) for item in tree]
    if not isinstance(tree, dict):
        return tree
    return {key: convert(item) if key in _IDS else _with_ids(item, convert) for key, item in tree.items()}
