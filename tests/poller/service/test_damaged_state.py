"""A state folder whose file is damaged: the poller says so, keeps the file, and does its work, start after start."""

import os
import sqlite3
from contextlib import closing

import pytest

from sandgauge_schemas import names
from support.delivered import ids_in
from support.feed import feed, start_span
from support.waiting import wait_until

SAMPLE = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE


def test_the_poller_works_on_and_says_it_once(osb, make_poller, otlp_sink, tmp_path):
    known, new = osb.create(), osb.create()
    poller = make_poller()
    with poller:
        feed(poller.endpoint, start_span(known))
        otlp_sink.wait_for(lambda sink: known in ids_in(sink, SAMPLE))
    file = tmp_path / "state" / "sandgauge.db"
    noise = b"\0" * 4096 + file.read_bytes()[4096:]
    file.write_bytes(noise)
    for _ in range(3):
        # As something does that restarts it whenever it ends.
        poller.start()
        poller.kill()
    with poller:
        feed(poller.endpoint, start_span(new))
        otlp_sink.wait_for(lambda sink: new in ids_in(sink, SAMPLE))
    (line,) = poller.complaints()
    assert f"{file}: damaged" in line
    assert "kept as sandgauge.db.damaged-1" in line
    poller.log_file.write_text("")
    assert sorted(found.name for found in file.parent.glob("*damaged*")) == ["sandgauge.db.damaged-1"]
    assert (file.parent / "sandgauge.db.damaged-1").read_bytes() == noise


def spoil(folder):
    """Overwrite the store and what SQLite has beside it, as a disk does that fails, below whoever has them open."""
    for name in ("sandgauge.db", "sandgauge.db-wal"):
        with (folder / name).open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            file.write(b"x" * size)


def drop_a_table(folder):
    """Take a table away, as somebody does who has opened the file beside the poller."""
    with closing(sqlite3.connect(folder / "sandgauge.db", timeout=60)) as other:
        other.execute("DROP TABLE tally")


@pytest.mark.parametrize("harm", [spoil, drop_a_table])
def test_damage_while_it_runs_is_one_clear_end_and_the_next_start_begins_anew(
    osb, make_poller, otlp_sink, tmp_path, harm
):
    known, new = osb.create(), osb.create()
    poller = make_poller()
    poller.start()
    feed(poller.endpoint, start_span(known))
    otlp_sink.wait_for(lambda sink: known in ids_in(sink, SAMPLE))
    file = tmp_path / "state" / "sandgauge.db"
    harm(file.parent)
    wait_until(poller.has_ended, timeout_s=60, what="the end of the poller")
    assert poller.stop() == 1
    lines = poller.complaints()
    assert [entry for entry in poller.log() if "traceback" in entry] == []
    assert any(line.startswith(f"Error: {file}: damaged (") and "start the poller again" in line for line in lines)
    assert any(
        f"{file}: kept as sandgauge.db.damaged-1; sandboxes that it knew are read no more" in one for one in lines
    )
    poller.log_file.write_text("")
    for _ in range(2):
        poller.start()
        assert poller.stop() == 0
    with poller:
        feed(poller.endpoint, start_span(new))
        otlp_sink.wait_for(lambda sink: new in ids_in(sink, SAMPLE))
    assert sorted(found.name for found in file.parent.glob("*.damaged-?")) == ["sandgauge.db.damaged-1"]
