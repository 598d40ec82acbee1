-- Where rows of jobs go beside their history.
CREATE TABLE outlets (
    job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    -- An address, or the name of one.
    asked TEXT NOT NULL,
    -- Begins the identifiers of its messages.
    run INTEGER NOT NULL,
    done INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (job, place)
) STRICT;

-- How far each result of the job has come there, and what became of its rows.
CREATE TABLE deliveries (
    job INTEGER NOT NULL,
    place INTEGER NOT NULL,
    result INTEGER NOT NULL,
    -- Rows before this one are there, or lost.
    next_row INTEGER NOT NULL,
    -- Rows before this one are being tried, or were when the server was killed.
    until_row INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    backlog INTEGER NOT NULL,
    gone INTEGER NOT NULL,
    PRIMARY KEY (job, place, result),
    FOREIGN KEY (job, place) REFERENCES outlets (job, place) ON DELETE CASCADE
) STRICT;
