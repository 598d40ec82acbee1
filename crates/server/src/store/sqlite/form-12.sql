-- What a job's rows set going: as it was asked for, and what stands by the last window.
CREATE TABLE actions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    job INTEGER NOT NULL,
    body TEXT NOT NULL,
    created_ns INTEGER NOT NULL,
    standing TEXT NOT NULL
) STRICT;

-- What was decided, written with the rows that it was decided by; the newest of each action stay.
CREATE TABLE decisions (
    action INTEGER NOT NULL REFERENCES actions (id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    body TEXT NOT NULL,
    decided_ns INTEGER NOT NULL,
    -- How many of those who are told have it.
    reached INTEGER NOT NULL DEFAULT 0,
    -- When all had it.
    done_ns INTEGER,
    PRIMARY KEY (action, version)
) STRICT;
