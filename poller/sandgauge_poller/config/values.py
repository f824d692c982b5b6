"""Types of single values: text of the file in, checked value out. Python callers may give the value itself."""

import os
import re
import ssl
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf, PlainSerializer, SecretStr, WithJsonSchema

from sandgauge_poller.config.errors import InvalidValueError
from sandgauge_poller.config.shard import Shard, parse_shard
from sandgauge_poller.config.units import format_duration, format_size, parse_duration, parse_size
from sandgauge_poller.config.urls import (
    ListenAddress,
    parse_collector,
    parse_host_rule,
    parse_listen_address,
    parse_scope,
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")


class ProxyUse(StrEnum):
    """How readings reach a sandbox's daemon."""

    AUTO = "auto"
    ALWAYS = "true"
    NEVER = "false"


def _from_text(parse: Callable[[str], object]) -> BeforeValidator:
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


def _as_text(write: Callable[[Any], str]) -> PlainSerializer:
    """Write the value as the file would have it; values for Python stay what they are."""
    return PlainSerializer(write, return_type=str, when_used="json")


def _proxy_use(value: object) -> object:
    return str(value).lower() if isinstance(value, (str, bool)) else value


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise InvalidValueError(
            "is not a name", "write letters, digits, `.`, `_`, `-`, at most 128, a letter or digit first"
        )
    return text


def _header_name(text: str) -> str:
    if not _HEADER_NAME.fullmatch(text):
        raise InvalidValueError(
            "holds a header whose name is not one", "write names such as authorization, a colon and a blank"
        )
    return text


def _sendable(secret: SecretStr) -> SecretStr:
    """Refuse what no HTTP header can carry: it would fail at each request instead of here, once."""
    text = secret.get_secret_value()
    if text != text.strip():
        raise InvalidValueError(
            "starts or ends with a blank or a line break", "remove it: files often end with a line break"
        )
    if not all(character.isprintable() or character == "\t" for character in text):
        raise InvalidValueError("holds a control character", "write it in one line")
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        raise InvalidValueError("holds characters that no HTTP header carries", "write it in ASCII") from None
    return secret


def _masked(secret: SecretStr) -> str:
    """Return the same for every secret; an empty one stays empty, since that there is none is no secret."""
    return "***" if secret.get_secret_value() else ""


def _path(text: str) -> Path:
    if not text or "\0" in text:
        raise InvalidValueError("is not a path", "write a path, such as ./sandgauge-state")
    return Path(text)


def _file(text: str, form: str = "in PEM form") -> Path | None:
    if not text:
        return None
    path = _path(text)
    # Path.is_file raises where a folder on the way may not be entered; this answers False.
    if not os.path.isfile(path):  # noqa: PTH113  # see above
        raise InvalidValueError(
            "names no file", f"name an existing file {form}; relative paths start at the working directory"
        )
    if not os.access(path, os.R_OK):
        raise InvalidValueError("names a file that may not be read", "let the poller's user read it")
    return path


def _kubeconfig(text: str) -> Path | None:
    return _file(text, "that is a kubeconfig")


def _authority(text: str) -> Path | None:
    path = _file(text)
    if path is not None:
        try:
            ssl.create_default_context(cafile=path)
        except OSError:
            raise InvalidValueError(
                "names a file without a certificate", "name one that holds certificates in PEM form"
            ) from None
    return path


# What a file holds, for its JSON Schema: values are text there. No form is exact, since references may stand in it.
_TEXT = WithJsonSchema({"type": "string"})
_A_DURATION = WithJsonSchema({"type": "string", "pattern": r"^([0-9.]+h)?([0-9.]+m)?([0-9.]+s)?([0-9]+ms)?$"})
_A_DURATION_OR_ZERO = WithJsonSchema({"anyOf": [_A_DURATION.json_schema, {"const": 0}, {"const": "0"}]})
_A_SIZE = WithJsonSchema({"type": "string", "pattern": r"^[0-9.]+([KMGT]i|[kMGT])?B$"})
_A_PROXY_USE = WithJsonSchema({"enum": ["auto", True, False, "true", "false"]})

Name = Annotated[str, AfterValidator(_name)]
Duration = Annotated[
    float,
    _from_text(parse_duration),
    Field(ge=0, allow_inf_nan=False),
    _as_text(format_duration),
    _A_DURATION_OR_ZERO,
]
"""Seconds."""
PositiveDuration = Annotated[Duration, Field(gt=0), _A_DURATION]
Size = Annotated[int, _from_text(parse_size), Field(gt=0), _as_text(format_size), _A_SIZE]
"""Bytes."""
Scope = Annotated[str, AfterValidator(parse_scope)]
CollectorUrl = Annotated[str, AfterValidator(parse_collector)]
HostRule = Annotated[str, AfterValidator(parse_host_rule)]
Listen = Annotated[InstanceOf[ListenAddress], _from_text(parse_listen_address), _as_text(str), _TEXT]
OptionalShard = Annotated[
    InstanceOf[Shard] | None,
    _from_text(parse_shard),
    _as_text(lambda shard: "" if shard is None else str(shard)),
    _TEXT,
]
Secret = Annotated[SecretStr, AfterValidator(_sendable), _as_text(_masked)]
HeaderName = Annotated[str, AfterValidator(_header_name)]
Folder = Annotated[Path, _from_text(_path)]
OptionalFile = Annotated[Path | None, _from_text(_file), _TEXT]
OptionalKubeconfig = Annotated[Path | None, _from_text(_kubeconfig), _TEXT]
OptionalAuthority = Annotated[Path | None, _from_text(_authority), _TEXT]
ServerProxy = Annotated[ProxyUse, BeforeValidator(_proxy_use), _A_PROXY_USE]
