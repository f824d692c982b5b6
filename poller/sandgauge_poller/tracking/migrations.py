"""The store's tables as a list of forward steps: step n brings `PRAGMA user_version` from n - 1 to n.

A step that was released never changes; a change is a new step at the end.
"""

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE event (
        trace_id BLOB NOT NULL,
        span_id BLOB NOT NULL,
        kind TEXT NOT NULL,
        owner TEXT NOT NULL,
        subject TEXT NOT NULL,
        received_ns INTEGER NOT NULL,
        body TEXT,
        PRIMARY KEY (trace_id, span_id)
    ) WITHOUT ROWID;
    CREATE INDEX event_subject ON event (owner, subject);
    CREATE INDEX event_received ON event (received_ns);

    CREATE TABLE sandbox (
        owner TEXT NOT NULL,
        sandbox_id TEXT NOT NULL,
        state TEXT NOT NULL,
        updated_ns INTEGER NOT NULL,
        progress BLOB,
        PRIMARY KEY (owner, sandbox_id)
    ) WITHOUT ROWID;
    CREATE INDEX sandbox_state ON sandbox (state);

    CREATE TABLE outbox (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        signal TEXT NOT NULL REFERENCES outbox_account,
        rank INTEGER NOT NULL,
        created_ns INTEGER NOT NULL,
        items INTEGER NOT NULL,
        payload BLOB NOT NULL
    );
    CREATE INDEX outbox_order ON outbox (signal, rank);

    CREATE TABLE outbox_account (
        signal TEXT PRIMARY KEY,
        produced INTEGER NOT NULL DEFAULT 0,
        delivered INTEGER NOT NULL DEFAULT 0,
        rejected INTEGER NOT NULL DEFAULT 0,
        dropped INTEGER NOT NULL DEFAULT 0,
        pending INTEGER NOT NULL DEFAULT 0,
        pending_bytes INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
    INSERT INTO outbox_account (signal) VALUES ('traces'), ('metrics');

    CREATE TRIGGER outbox_appended AFTER INSERT ON outbox BEGIN
        UPDATE outbox_account
        SET produced = produced + new.items,
            pending = pending + new.items,
            pending_bytes = pending_bytes + length(new.payload)
        WHERE signal = new.signal;
    END;
    CREATE TRIGGER outbox_removed AFTER DELETE ON outbox BEGIN
        UPDATE outbox_account
        SET pending = pending - old.items,
            pending_bytes = pending_bytes - length(old.payload)
        WHERE signal = old.signal;
    END;
    """,
    # Rows that are written together stand together: sandboxes are read in the order of their phases.
    """
    CREATE TABLE tally (
        phase REAL NOT NULL,
        owner TEXT NOT NULL,
        sandbox_id TEXT NOT NULL,
        counts BLOB NOT NULL,
        PRIMARY KEY (phase, owner, sandbox_id)
    ) WITHOUT ROWID;
    """,
)
