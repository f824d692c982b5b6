"""What a create call says, and what the server answers to a wrong one, in the shapes of its validating framework."""

import json
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from sandgauge_demo.deployment.model import Runtime
from sandgauge_demo.deployment.specs import SandboxSpec

_SHORTEST_LIFE_S = 60


class InvalidRequestError(Exception):
    """The call is wrong; `details` are the framework's entries."""

    def __init__(self, details: list[dict[str, Any]]) -> None:
        super().__init__(details)
        self.details = details


class _Image(BaseModel):
    uri: str


class _CreateRequest(BaseModel):
    """What is read of a create call. Requests are not: a pod that the server makes requests what its limits are."""

    model_config = ConfigDict(alias_generator=to_camel)

    image: _Image | None = None
    entrypoint: tuple[str, ...] = Field(default=(), min_length=1)
    resource_limits: Mapping[str, str] | None = None
    timeout: int | None = Field(default=None, ge=_SHORTEST_LIFE_S)
    metadata: Mapping[str, str] = {}
    env: Mapping[str, str] = {}

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        """Refuse what lacks a part; the real server can do without each in ways that are not simulated."""
        if self.image is None:
            raise ValueError("image is needed")
        if not self.entrypoint:
            raise ValueError("entrypoint is needed")
        if self.resource_limits is None:
            raise ValueError("resourceLimits is needed")
        return self


def parse_create_request(body: bytes, content_type: str, runtime: Runtime) -> SandboxSpec:
    """Return what to create. Raise InvalidRequestError."""
    try:
        asked = _CreateRequest.model_validate(_content(body, content_type))
    except ValidationError as error:
        raise InvalidRequestError([_detail(one) for one in error.errors(include_url=False)]) from None
    limits = asked.resource_limits or {}
    return SandboxSpec(
        limits=limits,
        requests={} if runtime is Runtime.DOCKER else limits,
        timeout_s=asked.timeout,
        image=asked.image.uri if asked.image else "",
        entrypoint=asked.entrypoint,
        metadata=asked.metadata,
        environment=asked.env,
    )


def _content(body: bytes, content_type: str) -> Any:
    """Parse a body as JSON, if its type says that it is; else it is a text, which is no request."""
    if not body:
        raise InvalidRequestError([{"type": "missing", "loc": ["body"], "msg": "no body", "input": None}])
    if content_type != "application/json":
        return body.decode(errors="replace")
    try:
        return json.loads(body)
    except json.JSONDecodeError as error:
        detail = {"type": "json_invalid", "loc": ["body", error.pos], "msg": "no JSON", "input": {}}
        raise InvalidRequestError([{**detail, "ctx": {"error": error.msg}}]) from None


def _detail(error: Any) -> dict[str, Any]:
    """Return an entry as the framework writes it: what JSON cannot say becomes an empty object."""
    kind = "model_attributes_type" if error["type"] == "model_type" else error["type"]
    detail = {"type": kind, "loc": ["body", *error["loc"]], "msg": error["msg"], "input": error["input"]}
    if "ctx" not in error or kind == "model_attributes_type":
        return detail
    plain: dict[str, Any] = {
        name: value if isinstance(value, str | int) else {} for name, value in error["ctx"].items()
    }
    return {**detail, "ctx": plain}
