-- What a job keeps: its results, or the tuples themselves for queries that come later.
ALTER TABLE jobs ADD COLUMN keep TEXT NOT NULL DEFAULT 'results';
-- Of a job whose rows are tuples: the parsers that made them with the versions of their schemas, and the share of flows.
ALTER TABLE jobs ADD COLUMN tuples TEXT;
