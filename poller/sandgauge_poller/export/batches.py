"""Many records, one transaction: what comes while one is on its way to the disk goes together with the next.

A reading of its own transaction would cost several times what it takes to make it. So rows of one kind are joined, and
of a sandbox only its latest progress is written, beside every record that it counts.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

from sandgauge_poller.export.outbox import OutboxItem
from sandgauge_poller.tracking.progress_rows import ProgressRow


class Submit(Protocol):
    """Has joined rows and progress written in one transaction."""

    def __call__(
        self, items: Sequence[OutboxItem], rows: Sequence[ProgressRow], *, urgent: bool
    ) -> asyncio.Future[Any]:
        """Return what is done after the commit; the write of what is not urgent may wait a moment for others."""


MOST_ROW_BYTES = 128 * 1024
"""A row is sent, kept back or dropped as a whole."""
_ROW_NS = 60 * 10**9
"""Records whose times are further apart have rows of their own: a row is too old as a whole, too."""


class _Record(NamedTuple):
    key: object
    items: Sequence[OutboxItem]
    committed: asyncio.Future[None]


@dataclass(slots=True)
class _Batch:
    records: list[_Record] = field(default_factory=list)
    progress: dict[object, Callable[[], ProgressRow]] = field(default_factory=dict)
    is_urgent: bool = False


class Batches:
    """Collects records and commits them; one batch is on its way at a time. For one event loop."""

    def __init__(self, submit: Submit, hurry: Callable[[], None]) -> None:
        self._submit = submit
        self._hurry = hurry
        self._batch = _Batch()
        self._is_busy = False

    async def commit(
        self, key: object, progress: Callable[[], ProgressRow], items: Iterable[OutboxItem], *, urgent: bool
    ) -> None:
        """Return once the records are committed, and with them what the sandbox's progress is by then.

        `progress` is asked when the batch is closed. What is not urgent may wait a moment for others.

        Raises:
            StateError: the disk cannot take the batch.

        """
        batch, loop = self._batch, asyncio.get_running_loop()
        committed: asyncio.Future[None] = loop.create_future()
        batch.records.append(_Record(key, tuple(items), committed))
        batch.progress[key] = progress
        batch.is_urgent |= urgent
        if not self._is_busy:
            self._is_busy = True
            loop.call_soon(self._send)  # after whatever else is ready to be recorded now
        elif urgent:
            self._hurry()
        await committed

    def _send(self) -> None:
        batch, self._batch = self._batch, _Batch()
        progress = _progress(batch)
        try:
            items = [item for record in batch.records for item in record.items]
            writing = self._submit(joined(items), progress, urgent=batch.is_urgent)
        except Exception as error:  # noqa: BLE001  # those who wait get it
            self._settle(batch, error)
        else:
            writing.add_done_callback(partial(self._settle_as, batch))

    def _settle_as(self, batch: _Batch, written: asyncio.Future[Any]) -> None:
        self._settle(batch, asyncio.CancelledError() if written.cancelled() else written.exception())

    def _settle(self, batch: _Batch, error: BaseException | None) -> None:
        for record in batch.records:
            _tell(record, error)
        self._is_busy = bool(self._batch.records)
        if self._is_busy:
            # After those who waited: what failed for them may have to be in the next batch.
            asyncio.get_running_loop().call_soon(self._send)


def _progress(batch: _Batch) -> list[ProgressRow]:
    """Return a row for each sandbox; one whose row cannot be made leaves the batch, and takes nobody else along."""
    rows: list[ProgressRow] = []
    failed: dict[object, Exception] = {}
    for key, row in batch.progress.items():
        try:
            rows.append(row())
        except Exception as error:  # noqa: BLE001  # whoever waits for its record gets it
            failed[key] = error
    if failed:
        for record in batch.records:
            if record.key in failed:
                _tell(record, failed[record.key])
        batch.records = [record for record in batch.records if record.key not in failed]
    return rows


def _tell(record: _Record, error: BaseException | None) -> None:
    if record.committed.done():
        return  # whoever waited has been cancelled
    if error is None:
        record.committed.set_result(None)
    else:
        record.committed.set_exception(error)


def joined(items: Sequence[OutboxItem]) -> list[OutboxItem]:
    """Return rows that hold the same records, as few as their bounds allow."""
    alike: defaultdict[tuple[object, ...], list[OutboxItem]] = defaultdict(list)
    for item in items:
        alike[item.signal, item.rank, item.created_ns // _ROW_NS].append(item)
    return [
        OutboxItem(
            signal=part[0].signal,
            rank=part[0].rank,
            created_ns=min(item.created_ns for item in part),
            items=sum(item.items for item in part),
            payload=b"".join([item.payload for item in part]),
        )
        for found in alike.values()
        for part in _parts(found)
    ]


def _parts(items: Iterable[OutboxItem]) -> Iterator[list[OutboxItem]]:
    part: list[OutboxItem] = []
    size = 0
    for item in items:
        if part and size + len(item.payload) > MOST_ROW_BYTES:
            yield part
            part, size = [], 0
        part.append(item)
        size += len(item.payload)
    if part:
        yield part
