-- +goose Up
-- Each change of a domain is a row and stays: a deletion has no content. The newest version of
-- a domain is what is in force. Times are microseconds since 1970, by the database's clock.
CREATE TABLE ration_rules_revisions (
	domain   BLOB    NOT NULL,
	version  INTEGER NOT NULL,
	base     INTEGER NOT NULL,
	content  BLOB,
	author   BLOB    NOT NULL,
	reason   BLOB    NOT NULL,
	saved_at INTEGER NOT NULL,
	PRIMARY KEY (domain, version)
) WITHOUT ROWID;

-- One row. A save locks it first, and a process that waits for a change looks at it.
CREATE TABLE ration_rules_state (
	id          INTEGER NOT NULL PRIMARY KEY,
	last_change TEXT    NOT NULL
);
INSERT INTO ration_rules_state (id, last_change) VALUES (1, '');

-- +goose Down
DROP TABLE ration_rules_state;
DROP TABLE ration_rules_revisions;
