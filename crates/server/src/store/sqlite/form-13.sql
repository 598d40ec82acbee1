-- The first 8 bytes of the SHA-256 of a segment's files; NULL: written by an earlier version.
ALTER TABLE segments ADD COLUMN checksum INTEGER;
