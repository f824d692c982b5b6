"""How a request is refused: status, reason, and what the sender should do, in the encoding that it spoke."""

import json
from http import HTTPStatus

from aiohttp import hdrs, web
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # generated code without stubs

PROTOBUF = "application/x-protobuf"
JSON = "application/json"

RETRY_AFTER_S = 1
"""What an overloaded or failing poller asks its sender to wait."""

_HEADERS = {
    HTTPStatus.SERVICE_UNAVAILABLE: {hdrs.RETRY_AFTER: str(RETRY_AFTER_S)},
    HTTPStatus.UNAUTHORIZED: {hdrs.WWW_AUTHENTICATE: "Bearer"},
}


def refusal(content_type: str, status: HTTPStatus, message: str) -> web.Response:
    """Return the answer; a sender of anything but protobuf reads JSON."""
    headers = _HEADERS.get(status, {})
    if content_type == PROTOBUF:
        body, answer_type = Status(message=message).SerializeToString(), PROTOBUF
    else:
        body, answer_type = json.dumps({"message": message}).encode(), JSON
    return web.Response(status=status, body=body, content_type=answer_type, headers=headers)


def unauthorized(content_type: str) -> web.Response:
    """Return the answer to a request without the token."""
    return refusal(content_type, HTTPStatus.UNAUTHORIZED, "a bearer token is wanted")
