-- What each agent of a job that has ended had seen.
ALTER TABLE jobs ADD COLUMN accounts TEXT;
