-- Of a job whose agents publish to a bus: who merges that.
ALTER TABLE jobs ADD COLUMN merged_by TEXT;
