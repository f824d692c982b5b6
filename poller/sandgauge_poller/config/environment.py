"""`${env:NAME}` and `${env:NAME:-default}` inside parsed scalars; `$$` is a dollar, any other `$` stands for itself."""

import re
from collections.abc import Mapping

from sandgauge_poller.config.errors import Fault, InvalidValueError, KeyPath

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_TOKEN = re.compile(rf"\$\$|\$\{{env:(?P<name>{_NAME})(?::-(?P<default>[^{{}}]*))?\}}|\$\{{")
_OPTIONAL = re.compile(rf"\$\{{env:(?P<name>{_NAME}):-\}}")


class Unresolved:
    """Stands where a substitution failed, so that no check takes the place for empty."""


UNRESOLVED = Unresolved()


def is_switched_off(text: object, environ: Mapping[str, str]) -> bool:
    """Return whether `text` is an `${env:NAME:-}` alone that comes out empty."""
    match = _OPTIONAL.fullmatch(text) if isinstance(text, str) else None
    return match is not None and not environ.get(match["name"])


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Return `text` with each reference replaced; what comes from the environment is not read again.

    A default stands in for a variable that is unset or empty, as in a shell.

    Raises:
        InvalidValueError: A `${` is unclosed or unknown, or a variable without default is unset.

    """

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        name, default = match["name"], match["default"]
        if name is None:
            raise InvalidValueError(
                "holds a ${ that starts no reference",
                "write ${env:NAME} or ${env:NAME:-default}, or $$ for a dollar",
            )
        if default is not None:
            return environ.get(name) or default.replace("$$", "$")
        if name not in environ:
            raise InvalidValueError(
                f"environment variable {name} is not set",
                f"set it, or give it a default as ${{env:{name}:-default}}",
            )
        return environ[name]

    return _TOKEN.sub(replacement, text)


def expand_all(data: Mapping[str, object], environ: Mapping[str, str]) -> tuple[dict[str, object], list[Fault]]:
    """Return `data` with every scalar expanded, UNRESOLVED where that failed, and the faults."""
    faults: list[Fault] = []

    def expanded(value: object, path: KeyPath) -> object:
        if isinstance(value, dict):
            return {key: expanded(inner, (*path, key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [expanded(inner, (*path, index)) for index, inner in enumerate(value)]
        if not isinstance(value, str):
            return value
        try:
            return expand(value, environ)
        except InvalidValueError as error:
            faults.append(Fault(path, error.reason, error.cure))
            return UNRESOLVED

    return {key: expanded(value, (key,)) for key, value in data.items()}, faults
