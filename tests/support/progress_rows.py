"""Progress as the store keeps it, written as a whole."""

import sqlite3

from sandgauge_poller.tracking import progress_rows
from sandgauge_poller.tracking.active_set import SandboxKey
from sandgauge_poller.tracking.progress import Progress


def save_progress(connection: sqlite3.Connection, key: SandboxKey, progress: Progress, now_ns: int) -> None:
    progress_rows.save(connection, [progress_rows.whole_row(key, progress)], now_ns)
