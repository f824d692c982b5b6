"""Pydantic's errors in the words of the file: which key, why, and what to write."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic_core import ErrorDetails

from sandgauge_poller.config.errors import Fault, InvalidValueError, KeyPath
from sandgauge_poller.config.model import Config
from sandgauge_poller.config.section import Section

_SINGLE_VALUE = "must be a single value"
_SECTION = ("must hold keys of its own", "indent them beneath it")
_WORDS: Mapping[str, tuple[str, str]] = {
    "missing": ("is missing", "add it"),
    "model_type": _SECTION,
    "dict_type": _SECTION,
    "tuple_type": ("must be a list", "start each entry on a line of its own with `- `"),
    "int_parsing": ("is not a whole number", "write digits alone, such as 50000"),
    "int_parsing_size": ("is too large", "write a smaller number"),
    "float_parsing": ("is not a number", "write digits, such as 50 or 0.5"),
    "finite_number": ("is not a finite number", "write digits, such as 50 or 0.5"),
    "bool_parsing": ("is neither true nor false", "write true or false"),
    "greater_than": ("must be more than zero", "write a larger value"),
    "string_type": (_SINGLE_VALUE, "write text after the colon"),
    "path_type": (_SINGLE_VALUE, "write a path after the colon"),
    "int_type": (_SINGLE_VALUE, "write a number after the colon"),
    "float_type": (_SINGLE_VALUE, "write a number after the colon; a duration takes its unit, such as 10s"),
    "bool_type": (_SINGLE_VALUE, "write true or false after the colon"),
    "is_instance_of": (_SINGLE_VALUE, "write host:port after the colon"),
}
_NO_WORDS = ("is not accepted", "compare it with the reference in docs/configuration.md")
_FREE_NAMES: KeyPath = ("export", "headers")
_KEY_LIKE = re.compile(r"[A-Za-z0-9_-]{1,64}")


def explain(error: ErrorDetails) -> Fault:
    """Return where and why pydantic refused; the value itself is looked at and never quoted."""
    path: KeyPath = tuple(part for part in error["loc"] if part != "[key]")
    context: Mapping[str, Any] = error.get("ctx", {})
    invalid = context.get("error")
    if isinstance(invalid, InvalidValueError):
        return Fault((*path, *invalid.below), invalid.reason, invalid.cure)
    if error["type"] == "extra_forbidden":
        return _unknown_key(path, error["input"])
    if error["type"] in {"enum", "literal_error"}:
        choices = str(context["expected"]).replace("'", "")
        return Fault(path, "is not one of its values", f"write {choices}")
    if error["type"] == "greater_than_equal":
        return Fault(path, f"must be at least {context['ge']:g}", "write a larger value")
    reason, cure = _WORDS.get(error["type"], _NO_WORDS)
    if error["input"] is None and error["type"] != "missing":
        reason = "has no value"
    return Fault(path, reason, cure)


def _unknown_key(path: KeyPath, value: object) -> Fault:
    name, known = str(path[-1]), known_keys(path[:-1])
    if not _may_be_shown(name, path[:-1], value):
        reason = "holds a name without a value, or one that is no key"
        return Fault(path, reason, f"write a blank after each colon; known here: {', '.join(known)}")
    close = _close_to(name, known)
    cure = f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
    return Fault(path, "is not a known key", cure)


def _close_to(name: str, known: list[str]) -> list[str]:
    return get_close_matches(name.lower().replace("-", "_"), known, n=1)


def known_keys(path: KeyPath) -> list[str]:
    """Return the keys that the section at `path` takes; empty where there is no such section."""
    section: type[Section] | None = Config
    for part in path:
        if isinstance(part, str):
            field = section.model_fields.get(part) if section else None
            section = _section_of(field.annotation) if field else None
    return sorted(section.model_fields) if section else []


def _section_of(annotation: Any) -> type[Section] | None:
    candidates = (annotation, *get_args(annotation))
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, Section)), None)


def show(path: KeyPath, data: object) -> str:
    """Return `path` in `data` as `deployments[0].endpoint`, cut off before a name that may be a misplaced secret.

    `{bearer_token:abc}`, without a blank after the colon, is to YAML a key without a value.
    """
    shown = ""
    for depth, part in enumerate(path):
        value = _member(data, part)
        if isinstance(part, int):
            shown += f"[{part}]"
        elif _may_be_shown(part, path[:depth], value):
            shown += f".{part}" if shown else part
        else:
            break
        data = value
    return shown


def _member(data: object, part: str | int) -> object:
    if isinstance(data, dict):
        return data.get(part)
    if isinstance(data, list) and isinstance(part, int):
        return data[part]
    return None


def _may_be_shown(name: str, parent: KeyPath, value: object) -> bool:
    known = known_keys(parent)
    if name in known:
        return True
    if not (known or parent == _FREE_NAMES) or not _KEY_LIKE.fullmatch(name):
        return False
    return value is not None or bool(_close_to(name, known))
