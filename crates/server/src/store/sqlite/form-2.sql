-- Jobs as the control of agents has saved them, and how far their results have been published.
CREATE TABLE controlled (
    job INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    saved TEXT NOT NULL,
    body BLOB NOT NULL,
    progress TEXT
) STRICT;

-- How far the lanes of a job are committed, and what else is known of them.
CREATE TABLE lanes (
    job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    lane TEXT NOT NULL,
    seq INTEGER NOT NULL,
    facts TEXT NOT NULL,
    PRIMARY KEY (job, lane)
) STRICT;

-- Records that are committed and whose windows are not all published; without a lane: what many of them came to.
CREATE TABLE frames (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    lane TEXT,
    over_ns INTEGER NOT NULL,
    payload BLOB NOT NULL
) STRICT;
CREATE INDEX frames_by_end ON frames (job, over_ns);
