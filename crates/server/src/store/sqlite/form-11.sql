-- Browsers that have logged in: the hash of the session's name, and that of its token.
CREATE TABLE sessions (
    name BLOB PRIMARY KEY,
    token BLOB NOT NULL,
    begun_ns INTEGER NOT NULL
) STRICT;
