"""Progress as the store keeps it, written as a whole."""

import sqlite3

from sandgauge_poller.tracking import progress_rows
from sandgauge_poller.tracking.active_set import SandboxKey
from sandgauge_poller.tracking.phase import phase
from sandgauge_poller.tracking.progress import Progress, dump_progress
from sandgauge_poller.tracking.progress_rows import ProgressRow
from sandgauge_poller.tracking.tally import dump_tally


def save_progress(connection: sqlite3.Connection, key: SandboxKey, progress: Progress, now_ns: int) -> None:
    row = ProgressRow(key, phase(key.sandbox_id), dump_tally(progress), dump_progress(progress))
    progress_rows.save(connection, [row], now_ns)
