-- Which server this is, for as long as its data directory lives: agents tell by it whose the numbers of jobs are. Never 0.
CREATE TABLE identity (id INTEGER NOT NULL);
INSERT INTO identity (id) VALUES (random() | 1);
