"""The account of a poller's outbox as its store has it, read beside the running poller."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sandgauge_poller.tracking.database import STORE_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Spans or points of one signal."""

    produced: int
    delivered: int
    rejected: int
    dropped: int
    pending: int
    pending_bytes: int

    @property
    def is_exact(self) -> bool:
        return self.produced == self.delivered + self.rejected + self.dropped + self.pending


def account(directory: Path, signal: str) -> Account:
    """Return the account of `traces` or `metrics`; `directory` is the state folder."""
    columns = ", ".join(Account.__slots__)
    uri = f"{(directory / STORE_FILE).absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=60)) as store:
        row = store.execute(f"SELECT {columns} FROM outbox_account WHERE signal = ?", (signal,)).fetchone()
    return Account(**dict(zip(Account.__slots__, row, strict=True)))
