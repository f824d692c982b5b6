"""From what a caller hands over to what a span may hold: a value that cannot be true is left out, and said so.

Everything here is checked although it is typed: a single value that OTLP cannot hold would cost an exporter's batch.
Complaints name the value and never quote it.
"""

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from numbers import Integral, Real

from sandgauge_schemas.records import Sidecar
from sandgauge_schemas.records.keys import MAX_INDEXED
from sandgauge_schemas.resources import LARGEST_AMOUNT, RESOURCE_KEYS, SandboxResourceAmounts, SandboxResources
from sandgauge_schemas.scope import control_plane_scope

Resources = SandboxResourceAmounts | Mapping[str, object] | None
"""Amounts by the keys cpu (cores), memory_mib, disk_gib, gpu and gpu_type; None, or a key left out, is not declared."""

Complain = Callable[[str], None]

MAX_TEXT = 1024
"""Longest text on a span, in characters; the poller reads no longer one."""

# The builtin types say the same as the abstract ones behind them, and say it at once.
_NUMBERS = (int, float, Real)
_WHOLE_NUMBERS = (int, Integral)
_KEYS = frozenset(RESOURCE_KEYS)
_NOTHING = (None,) * len(RESOURCE_KEYS)

# A process has few control planes.
_known_scope = lru_cache(maxsize=64)(control_plane_scope)

_ERROR_TYPE = re.compile(r"[A-Za-z0-9_][\w.:/-]{0,127}", re.ASCII)
_OTHER_ERROR = "_OTHER"
"""OpenTelemetry's word for an error whose type has no name."""


def text(value: object, what: str, complain: Complain) -> str | None:
    """Return an id or a name as text; None and empty text are absent."""
    if value is None or value == "":
        return None
    plain = value if isinstance(value, str) else str(value)
    if len(plain) > MAX_TEXT:
        complain(f"{what} is longer than {MAX_TEXT} characters")
        return None
    if not plain.isascii():
        try:
            plain.encode()
        except UnicodeEncodeError:
            complain(f"{what} is no valid text")
            return None
    return plain


def new_id() -> str:
    """Return an id of a request; drawn from the system, since a training program seeds `random`."""
    return os.urandom(16).hex()


def required_text(value: object, what: str, complain: Complain) -> str | None:
    """Return a text without which nothing is recorded."""
    if value is None or value == "":
        complain(f"{what} is missing, so nothing is recorded")
    return text(value, what, complain)


def flag(value: object, what: str, complain: Complain) -> bool | None:
    """Return a bool; anything else is absent."""
    if value is None or isinstance(value, bool):
        return value
    complain(f"{what}: {type(value).__name__} is not a bool")
    return None


def number(value: object, what: str, complain: Complain) -> float | None:
    """Return a finite number of at least 0."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        complain(f"{what}: {type(value).__name__} is not a number")
        return None
    try:
        plain = float(value)
    except OverflowError:
        plain = math.inf
    if not 0 <= plain <= LARGEST_AMOUNT:
        complain(f"{what} is negative, not finite or too large")
        return None
    return plain


def whole(value: object, what: str, complain: Complain) -> int | None:
    """Return a whole number of at least 0; 512.0 is whole, 512.5 is not and is never rounded."""
    plain = number(value, what, complain)
    if plain is None:
        return None
    if isinstance(value, _WHOLE_NUMBERS):
        return int(value)
    if not plain.is_integer():
        complain(f"{what} is not a whole number")
        return None
    return int(plain)


def count(value: object, complain: Complain) -> int:
    """Return how many sandboxes are asked for; a request asks for one at least."""
    plain = whole(value, "count", complain)
    if plain:
        return plain
    complain("count is not a whole number of at least 1, and is taken as 1")
    return 1


def requested(resources: Resources, complain: Complain, what: str = "resources") -> SandboxResources:
    """Return a declared shape: whole MiB, GiB and GPUs."""
    cpu, memory_mib, disk_gib, gpu, gpu_type = _values(resources, what, complain)
    return SandboxResources(
        cpu=number(cpu, f"{what}.cpu", complain),
        memory_mib=whole(memory_mib, f"{what}.memory_mib", complain),
        disk_gib=whole(disk_gib, f"{what}.disk_gib", complain),
        gpu=whole(gpu, f"{what}.gpu", complain),
        gpu_type=text(gpu_type, f"{what}.gpu_type", complain),
    )


def submitted(resources: Resources, what: str, complain: Complain) -> SandboxResourceAmounts:
    """Return a shape as it was sent: fractions of MiB and GiB are kept."""
    cpu, memory_mib, disk_gib, gpu, gpu_type = _values(resources, what, complain)
    return SandboxResourceAmounts(
        cpu=number(cpu, f"{what}.cpu", complain),
        memory_mib=number(memory_mib, f"{what}.memory_mib", complain),
        disk_gib=number(disk_gib, f"{what}.disk_gib", complain),
        gpu=whole(gpu, f"{what}.gpu", complain),
        gpu_type=text(gpu_type, f"{what}.gpu_type", complain),
    )


def sidecars(given: Iterable[Sidecar | tuple[str, Resources]], complain: Complain) -> tuple[Sidecar, ...]:
    """Return the sidecars, as many as a reader takes from one span."""
    found: list[Sidecar] = []
    for one in given:
        if len(found) == MAX_INDEXED:
            complain(f"only the first {MAX_INDEXED} sidecars are recorded")
            break
        name, resources = (one.name, one.resources) if isinstance(one, Sidecar) else one
        what = f"sidecars[{len(found)}]"
        shape = requested(resources, complain, f"{what}.resources")
        found.append(Sidecar(name=text(name, f"{what}.name", complain), resources=shape))
    return tuple(found)


def scope(url: object, complain: Complain) -> str | None:
    """Return a control plane's URL without user information, query and fragment."""
    given = text(url, "scope", complain)
    stripped = _known_scope(given) if given is not None else None
    if given is not None and stripped is None:
        complain("scope is not a URL")
    return stripped


def error_type(value: object) -> str:
    """Return the type of a failure: a word such as `timeout`, or the name of a class; never a message."""
    return value if isinstance(value, str) and _ERROR_TYPE.fullmatch(value) else _OTHER_ERROR


def _values(resources: object, what: str, complain: Complain) -> tuple[object, ...]:
    """Return the values in the order of RESOURCE_KEYS, each None where it is not declared."""
    if isinstance(resources, Mapping):
        if not _KEYS.issuperset(resources):
            complain(f"{what} has other keys than {', '.join(RESOURCE_KEYS)}")
        return tuple(map(resources.get, RESOURCE_KEYS))
    if isinstance(resources, SandboxResourceAmounts):
        return tuple(getattr(resources, key) for key in RESOURCE_KEYS)
    if resources is not None:
        complain(f"{what}: {type(resources).__name__} is neither amounts nor a mapping")
    return _NOTHING
