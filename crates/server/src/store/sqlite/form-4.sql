-- What is watched: a rule as it was asked for, and how far its watching has come.
CREATE TABLE alert_rules (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    job INTEGER NOT NULL,
    body TEXT NOT NULL,
    created_ns INTEGER NOT NULL,
    seen_ns INTEGER,
    left_out INTEGER NOT NULL DEFAULT 0,
    -- How many notifications there have been: they are named by that.
    told INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Alerts, by what they are about; written with the rows that they come from.
CREATE TABLE alerts (
    rule INTEGER NOT NULL REFERENCES alert_rules (id) ON DELETE CASCADE,
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (rule, subject)
) STRICT;

-- Notifications that nobody has acknowledged yet.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    receiver TEXT NOT NULL,
    key TEXT NOT NULL,
    body TEXT NOT NULL,
    since_ns INTEGER NOT NULL,
    UNIQUE (receiver, key)
) STRICT;

CREATE TABLE silences (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    ends_ns INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;
