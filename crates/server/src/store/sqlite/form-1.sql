CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    query TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    owner TEXT NOT NULL,
    agents_on TEXT NOT NULL,
    labels TEXT NOT NULL,
    redacted INTEGER NOT NULL,
    created_ns INTEGER NOT NULL,
    ended_ns INTEGER
) STRICT;
CREATE INDEX jobs_by_state ON jobs (state);

-- Requests that were sent with a key: the same one again is the same job.
CREATE TABLE idempotency (
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    body BLOB NOT NULL,
    job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    at_ns INTEGER NOT NULL,
    PRIMARY KEY (owner, key)
) STRICT;

-- What agents were last known to be; the gateway's.
CREATE TABLE agents (
    name TEXT PRIMARY KEY,
    facts TEXT NOT NULL,
    last_seen_ns INTEGER NOT NULL
) STRICT;

CREATE TABLE tokens (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL,
    networks TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    created_ns INTEGER NOT NULL,
    expires_ns INTEGER
) STRICT;

CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ns INTEGER NOT NULL,
    who TEXT NOT NULL,
    act TEXT NOT NULL,
    object TEXT NOT NULL,
    outcome TEXT NOT NULL
) STRICT;

-- A job's results: their columns, and how many rows there were and are no more.
CREATE TABLE results (
    job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    processor TEXT,
    table_name TEXT NOT NULL,
    columns TEXT NOT NULL,
    keys INTEGER NOT NULL,
    next_row INTEGER NOT NULL DEFAULT 0,
    rows_dropped INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (job, place)
) STRICT;

-- Rows that are not in a file yet.
CREATE TABLE tail (
    job INTEGER NOT NULL,
    place INTEGER NOT NULL,
    first_row INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    first_ns INTEGER NOT NULL,
    last_ns INTEGER NOT NULL,
    watermark_ns INTEGER NOT NULL,
    kept_ns INTEGER NOT NULL,
    batch BLOB NOT NULL,
    PRIMARY KEY (job, place, first_row),
    FOREIGN KEY (job, place) REFERENCES results (job, place) ON DELETE CASCADE
) STRICT;

-- Rows that are, each segment a folder.
CREATE TABLE segments (
    job INTEGER NOT NULL,
    place INTEGER NOT NULL,
    first_row INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    first_ns INTEGER NOT NULL,
    last_ns INTEGER NOT NULL,
    kept_ns INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (job, place, first_row),
    FOREIGN KEY (job, place) REFERENCES results (job, place) ON DELETE CASCADE
) STRICT;
CREATE INDEX segments_by_age ON segments (kept_ns);

-- How far each lane of a job has come, written with the rows that it brought.
CREATE TABLE marks (
    job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    lane TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (job, lane)
) STRICT;
