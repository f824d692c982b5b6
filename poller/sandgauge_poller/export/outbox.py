"""The outbox: encoded records that wait for the Collector, as rows. Functions on a connection, inside one transaction.

Counts are kept by the store's own triggers and in the same transaction as the rows, so that
produced = delivered + rejected + dropped + pending holds at every commit, over restarts and kill -9.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from sandgauge_schemas.names import ExportOutcome, Signal


class Rank(IntEnum):
    """What a full outbox keeps: the highest rank goes first, within a rank the oldest."""

    LASTING = 0
    """Allocations and summaries."""
    SAMPLE = 1
    POINT = 2


class OutboxItem(NamedTuple):
    """One payload of `messages` and how many spans or points it holds.

    `created_ns`: for points their own time, else when the record was made; ns since the epoch.
    """

    signal: Signal
    rank: Rank
    created_ns: int
    items: int
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The oldest rows of one signal: what to send, what is too old to send, and whether rows wait behind it."""

    seqs: tuple[int, ...]
    payloads: tuple[bytes, ...]
    expired_seqs: tuple[int, ...]
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Spans or points of one signal since the store was made; `oldest_ns` is None when nothing is pending."""

    outcomes: Mapping[ExportOutcome, int]
    pending: int
    pending_bytes: int
    oldest_ns: int | None


def append(connection: sqlite3.Connection, items: Sequence[OutboxItem]) -> None:
    """Add rows, counted as produced."""
    connection.executemany(
        "INSERT INTO outbox (signal, rank, created_ns, items, payload) VALUES (?, ?, ?, ?, ?)",
        [(item.signal.value, item.rank.value, item.created_ns, item.items, item.payload) for item in items],
    )


def take(
    connection: sqlite3.Connection, signal: Signal, *, max_bytes: int, max_rows: int, not_before_ns: int = 0
) -> Batch:
    """Return the next rows without removing them: lasting records first, then by age.

    At least one row, however large; those created before `not_before_ns` are named as expired.
    """
    query = "SELECT seq, created_ns, payload FROM outbox WHERE signal = ? ORDER BY rank, seq LIMIT ?"
    seqs: list[int] = []
    payloads: list[bytes] = []
    expired: list[int] = []
    size = 0
    for seq, created_ns, payload in connection.execute(query, (signal.value, max_rows + 1)):
        if len(seqs) + len(expired) == max_rows or (seqs and size + len(payload) > max_bytes):
            more = True
            break
        if created_ns < not_before_ns:
            expired.append(seq)
            continue
        seqs.append(seq)
        payloads.append(payload)
        size += len(payload)
    else:
        more = False
    return Batch(seqs=tuple(seqs), payloads=tuple(payloads), expired_seqs=tuple(expired), more=more)


def remove(
    connection: sqlite3.Connection, signal: Signal, seqs: Sequence[int], outcome: ExportOutcome, *, rejected: int = 0
) -> int:
    """Delete rows of a signal and return how many spans or points they held, counted under the outcome.

    `rejected` of them count as rejected instead. Rows that are gone already count nothing.
    """
    before = _pending(connection, signal)
    connection.execute("DELETE FROM outbox WHERE seq IN (SELECT value FROM json_each(?))", (json.dumps(list(seqs)),))
    removed = before - _pending(connection, signal)
    _count(connection, signal, outcome, removed - min(rejected, removed))
    _count(connection, signal, ExportOutcome.REJECTED, min(rejected, removed))
    return removed


def enforce(connection: sqlite3.Connection, max_bytes: int) -> dict[tuple[Signal, Rank], int]:
    """Drop rows until the payloads fit; return how many spans or points of each signal and rank went.

    A row that is just being sent may go too: it then counts as dropped although it may arrive.
    """
    excess = connection.execute("SELECT sum(pending_bytes) FROM outbox_account").fetchone()[0] - max_bytes
    dropped: dict[tuple[Signal, Rank], int] = {}
    query = "SELECT seq, length(payload) FROM outbox WHERE signal = ? AND rank = ? ORDER BY seq"
    for signal, rank in _DROPPING_ORDER:
        if excess <= 0:
            break
        seqs = []
        for seq, size in connection.execute(query, (signal.value, rank.value)):
            seqs.append(seq)
            excess -= size
            if excess <= 0:
                break
        if seqs:
            dropped[signal, rank] = remove(connection, signal, seqs, ExportOutcome.DROPPED)
    return dropped


def count_lost(connection: sqlite3.Connection, lost: Mapping[Signal, int]) -> None:
    """Count spans or points that could not be stored when they were made: produced, and dropped at once."""
    for signal, items in lost.items():
        for outcome in (ExportOutcome.PRODUCED, ExportOutcome.DROPPED):
            _count(connection, signal, outcome, items)


def accounts(connection: sqlite3.Connection) -> dict[Signal, Account]:
    """Return the account of each signal, read from its one row."""
    query = "SELECT signal, produced, delivered, rejected, dropped, pending, pending_bytes FROM outbox_account"
    found = {}
    for name, produced, delivered, rejected, dropped, pending, pending_bytes in connection.execute(query).fetchall():
        signal = Signal(name)
        outcomes = {
            ExportOutcome.PRODUCED: produced,
            ExportOutcome.DELIVERED: delivered,
            ExportOutcome.REJECTED: rejected,
            ExportOutcome.DROPPED: dropped,
        }
        oldest_ns = _oldest_ns(connection, signal)
        found[signal] = Account(outcomes=outcomes, pending=pending, pending_bytes=pending_bytes, oldest_ns=oldest_ns)
    return found


_DROPPING_ORDER = (
    (Signal.METRICS, Rank.POINT),
    (Signal.TRACES, Rank.SAMPLE),
    (Signal.TRACES, Rank.LASTING),
)


def _pending(connection: sqlite3.Connection, signal: Signal) -> int:
    query = "SELECT pending FROM outbox_account WHERE signal = ?"
    return int(connection.execute(query, (signal.value,)).fetchone()[0])


def _count(connection: sqlite3.Connection, signal: Signal, outcome: ExportOutcome, items: int) -> None:
    if items:
        connection.execute(
            f"UPDATE outbox_account SET {outcome.value} = {outcome.value} + ? WHERE signal = ?",  # noqa: S608 - an enum's value
            (items, signal.value),
        )


def _oldest_ns(connection: sqlite3.Connection, signal: Signal) -> int | None:
    """Return the time of the first row of each rank, the earliest of them."""
    query = "SELECT created_ns FROM outbox WHERE signal = ? AND rank = ? ORDER BY seq LIMIT 1"
    firsts = [connection.execute(query, (signal.value, rank.value)).fetchone() for rank in Rank]
    return min((first[0] for first in firsts if first), default=None)
