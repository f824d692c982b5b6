"""The outbox: what goes first when it is full, what is taken, and an account that always adds up."""

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.export import outbox
from sandgauge_poller.export.outbox import OutboxItem, Rank
from sandgauge_poller.tracking.migrations import MIGRATIONS
from sandgauge_poller.tracking.store_file import migrate
from sandgauge_schemas.names import ExportOutcome, Signal

SIGNAL_OF = {Rank.LASTING: Signal.TRACES, Rank.SAMPLE: Signal.TRACES, Rank.POINT: Signal.METRICS}


def item(rank, payload=b"x" * 10, *, items=1, created_ns=1):
    return OutboxItem(signal=SIGNAL_OF[rank], rank=rank, created_ns=created_ns, items=items, payload=payload)


def open_store():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, MIGRATIONS, Path("store"))
    return connection


@pytest.fixture
def connection():
    opened = open_store()
    yield opened
    opened.close()


def take(connection, signal, *, max_bytes=1000, max_rows=100, not_before_ns=0):
    return outbox.take(connection, signal, max_bytes=max_bytes, max_rows=max_rows, not_before_ns=not_before_ns)


def balance(connection, signal):
    account = outbox.accounts(connection)[signal]
    return {**{outcome.value: count for outcome, count in account.outcomes.items()}, "pending": account.pending}


def test_an_empty_outbox_has_nothing_to_take_or_to_tell(connection):
    for signal in Signal:
        batch = take(connection, signal)
        assert (batch.seqs, batch.payloads, batch.expired_seqs, batch.more) == ((), (), (), False)
        account = outbox.accounts(connection)[signal]
        assert (account.pending, account.pending_bytes, account.oldest_ns) == (0, 0, None)


def test_signals_are_taken_apart_and_in_order(connection):
    outbox.append(connection, [item(Rank.SAMPLE, b"1"), item(Rank.POINT, b"2"), item(Rank.SAMPLE, b"3")])
    outbox.append(connection, [item(Rank.POINT, b"4")])
    assert take(connection, Signal.TRACES).payloads == (b"1", b"3")
    assert take(connection, Signal.METRICS).payloads == (b"2", b"4")


def test_lasting_records_are_taken_first(connection):
    outbox.append(connection, [item(Rank.SAMPLE, b"sample"), item(Rank.LASTING, b"summary")])
    assert take(connection, Signal.TRACES).payloads == (b"summary", b"sample")


@pytest.mark.parametrize(
    ("max_bytes", "max_rows", "taken", "more"),
    [
        (1000, 100, 4, False),
        (40, 100, 4, False),
        (39, 100, 3, True),
        (1000, 3, 3, True),
        (1000, 4, 4, False),
        (1, 100, 1, True),
    ],
)
def test_a_batch_keeps_its_bounds_and_tells_what_waits(connection, max_bytes, max_rows, taken, more):
    outbox.append(connection, [item(Rank.SAMPLE)] * 4)
    batch = take(connection, Signal.TRACES, max_bytes=max_bytes, max_rows=max_rows)
    assert (len(batch.payloads), batch.more) == (taken, more)
    assert take(connection, Signal.TRACES, max_bytes=max_bytes, max_rows=max_rows) == batch, "taking removes nothing"


def test_rows_too_old_are_named_and_not_taken(connection):
    rows = [item(Rank.POINT, bytes([n]), created_ns=n) for n in (5, 9, 4, 10)]
    outbox.append(connection, rows)
    batch = take(connection, Signal.METRICS, not_before_ns=9)
    assert batch.payloads == (b"\x09", b"\x0a")
    assert outbox.remove(connection, Signal.METRICS, batch.expired_seqs, ExportOutcome.DROPPED) == 2
    assert take(connection, Signal.METRICS).payloads == (b"\x09", b"\x0a")


def test_expired_rows_count_as_rows_of_the_batch(connection):
    outbox.append(connection, [item(Rank.POINT, created_ns=1)] * 3)
    batch = take(connection, Signal.METRICS, max_rows=2, not_before_ns=2)
    assert (len(batch.expired_seqs), batch.payloads, batch.more) == (2, (), True)


def test_outcomes_are_counted_in_items(connection):
    outbox.append(connection, [item(Rank.POINT, items=4), item(Rank.POINT, items=3), item(Rank.POINT, items=2)])
    first, second, third = take(connection, Signal.METRICS).seqs
    assert outbox.remove(connection, Signal.METRICS, [first], ExportOutcome.DELIVERED, rejected=1) == 4
    assert outbox.remove(connection, Signal.METRICS, [second], ExportOutcome.REJECTED) == 3
    assert balance(connection, Signal.METRICS) == {
        "produced": 9, "delivered": 3, "rejected": 4, "dropped": 0, "pending": 2,
    }  # fmt: skip
    assert outbox.remove(connection, Signal.METRICS, [first, second, third], ExportOutcome.DELIVERED, rejected=99) == 2
    assert balance(connection, Signal.METRICS) == {
        "produced": 9, "delivered": 3, "rejected": 6, "dropped": 0, "pending": 0,
    }  # fmt: skip


def test_a_full_outbox_gives_up_points_then_samples_then_the_rest_each_from_the_oldest(connection):
    ranks = [Rank.LASTING, Rank.POINT, Rank.SAMPLE, Rank.POINT, Rank.SAMPLE, Rank.LASTING]
    outbox.append(connection, [item(rank, bytes([n]) * 10, items=2) for n, rank in enumerate(ranks)])
    assert outbox.enforce(connection, 60) == {}
    assert outbox.enforce(connection, 51) == {(Signal.METRICS, Rank.POINT): 2}
    assert take(connection, Signal.METRICS).payloads == (b"\x03" * 10,)
    assert outbox.enforce(connection, 30) == {(Signal.METRICS, Rank.POINT): 2, (Signal.TRACES, Rank.SAMPLE): 2}
    assert take(connection, Signal.TRACES).payloads == (b"\x00" * 10, b"\x05" * 10, b"\x04" * 10)
    assert outbox.enforce(connection, 19) == {(Signal.TRACES, Rank.SAMPLE): 2, (Signal.TRACES, Rank.LASTING): 2}
    assert take(connection, Signal.TRACES).payloads == (b"\x05" * 10,)
    assert balance(connection, Signal.TRACES)["dropped"] == 6


def test_the_oldest_record_is_known_over_all_ranks(connection):
    outbox.append(connection, [item(Rank.SAMPLE, created_ns=7), item(Rank.LASTING, created_ns=9)])
    assert outbox.accounts(connection)[Signal.TRACES].oldest_ns == 7


def test_a_savepoint_undone_undoes_the_account(connection):
    connection.execute("BEGIN")
    connection.execute("SAVEPOINT job")
    outbox.append(connection, [item(Rank.POINT, items=4)])
    connection.execute("ROLLBACK TO job")
    connection.execute("COMMIT")
    assert balance(connection, Signal.METRICS)["produced"] == 0


@pytest.mark.parametrize("query", ["SELECT seq FROM outbox WHERE signal = 'traces' ORDER BY rank, seq LIMIT 5"])
def test_taking_follows_the_index(connection, query):
    plan = " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}"))
    assert "outbox_order" in plan
    assert "B-TREE" not in plan


OPERATIONS = st.one_of(
    st.tuples(
        st.just("append"),
        st.lists(st.tuples(st.sampled_from(Rank), st.binary(max_size=30), st.integers(1, 5)), max_size=5),
    ),
    st.tuples(st.just("deliver"), st.sampled_from(Signal), st.integers(0, 3), st.integers(0, 9)),
    st.tuples(st.just("reject"), st.sampled_from(Signal), st.integers(0, 3)),
    st.tuples(st.just("enforce"), st.integers(0, 200)),
)


@given(operations=st.lists(OPERATIONS, max_size=30))
def test_produced_is_delivered_rejected_dropped_and_pending(operations):
    connection = open_store()
    for operation in operations:
        match operation:
            case "append", rows:
                outbox.append(connection, [item(rank, payload, items=items) for rank, payload, items in rows])
            case "deliver", signal, rows, rejected:
                seqs = take(connection, signal, max_rows=rows).seqs
                outbox.remove(connection, signal, seqs, ExportOutcome.DELIVERED, rejected=rejected)
            case "reject", signal, rows:
                seqs = take(connection, signal, max_rows=rows).seqs
                outbox.remove(connection, signal, seqs, ExportOutcome.REJECTED)
            case "enforce", size:
                outbox.enforce(connection, size)
                assert sum(account.pending_bytes for account in outbox.accounts(connection).values()) <= size
        for signal in Signal:
            found = balance(connection, signal)
            produced = found.pop("produced")
            assert produced == sum(found.values())
            query = "SELECT coalesce(sum(items), 0), coalesce(sum(length(payload)), 0) FROM outbox WHERE signal = ?"
            account = outbox.accounts(connection)[signal]
            assert connection.execute(query, (signal.value,)).fetchone() == (account.pending, account.pending_bytes)
    connection.close()
