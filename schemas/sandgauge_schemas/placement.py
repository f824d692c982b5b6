"""Where a sandbox runs: opaque diagnostic identities, never an address to call."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """One triple of placement; whole or absent.

    `kind` says which infrastructure's format `id` has, `scope` within what `id` is unique
    (for OpenSandbox the deployment's control-plane URL).
    """

    kind: str
    scope: str
    id: str
