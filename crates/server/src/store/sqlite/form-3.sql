-- What a job captures, how it ended, and how long it goes on without being renewed.
ALTER TABLE jobs ADD COLUMN outcome TEXT;
ALTER TABLE jobs ADD COLUMN capture TEXT NOT NULL DEFAULT '{}';
ALTER TABLE jobs ADD COLUMN lease_seconds INTEGER;
