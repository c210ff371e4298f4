-- +goose Up
-- Each change of a domain is a row and stays: a deletion has no content. The newest version of
-- a domain is what is in force. Times are microseconds since 1970, by the database's clock.
-- Texts are bytes: no collation makes two domains one.
CREATE TABLE IF NOT EXISTS ration_rules_revisions (
	domain   VARBINARY(256)  NOT NULL,
	version  BIGINT          NOT NULL,
	base     BIGINT          NOT NULL,
	content  LONGBLOB,
	author   VARBINARY(256)  NOT NULL,
	reason   VARBINARY(4096) NOT NULL,
	saved_at BIGINT          NOT NULL,
	PRIMARY KEY (domain, version)
) ENGINE = InnoDB;

-- One row. A save locks it first, and a process that waits for a change looks at it.
CREATE TABLE IF NOT EXISTS ration_rules_state (
	id          INT           NOT NULL PRIMARY KEY,
	last_change VARBINARY(64) NOT NULL
) ENGINE = InnoDB;
INSERT IGNORE INTO ration_rules_state (id, last_change) VALUES (1, '');

-- +goose Down
DROP TABLE ration_rules_state;
DROP TABLE ration_rules_revisions;
