-- One-time tokens with which hosts ask for their first certificate.
CREATE TABLE invitations (
    hash BLOB PRIMARY KEY,
    agent TEXT NOT NULL,
    expires_ns INTEGER NOT NULL
) STRICT;

-- Agents that have certificates. One is good while its enrolment is the one that stands here.
CREATE TABLE enrolments (
    agent TEXT PRIMARY KEY,
    enrolment INTEGER NOT NULL,
    enrolled_ns INTEGER NOT NULL,
    good_until_ns INTEGER NOT NULL,
    revoked_ns INTEGER
) STRICT;
