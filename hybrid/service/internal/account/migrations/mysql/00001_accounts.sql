-- +goose Up
-- Names, domains and texts are bytes: no collation makes two names one. Times are microseconds
-- since 1970, by the clock of the service. A user without a password cannot log in with one.
CREATE TABLE IF NOT EXISTS ration_accounts_users (
	name     VARBINARY(128) NOT NULL PRIMARY KEY,
	password VARBINARY(512) NOT NULL,
	made_at  BIGINT         NOT NULL
) ENGINE = InnoDB;

-- The domain * is all domains. Roles are 1 viewer, 2 editor, 3 admin.
CREATE TABLE IF NOT EXISTS ration_accounts_rights (
	name   VARBINARY(128) NOT NULL,
	domain VARBINARY(256) NOT NULL,
	role   INT            NOT NULL,
	PRIMARY KEY (name, domain)
) ENGINE = InnoDB;

-- The SHA-256 of a cookie's value.
CREATE TABLE IF NOT EXISTS ration_accounts_sessions (
	id      VARBINARY(32)  NOT NULL PRIMARY KEY,
	name    VARBINARY(128) NOT NULL,
	made_at BIGINT         NOT NULL,
	seen_at BIGINT         NOT NULL,
	KEY (name)
) ENGINE = InnoDB;

-- The SHA-256 of a token, and what its user calls it.
CREATE TABLE IF NOT EXISTS ration_accounts_tokens (
	id      VARBINARY(32)  NOT NULL PRIMARY KEY,
	name    VARBINARY(128) NOT NULL,
	title   VARBINARY(128) NOT NULL,
	made_at BIGINT         NOT NULL,
	UNIQUE KEY (name, title)
) ENGINE = InnoDB;

-- One row. A change of users locks it first, so that the last admin stays.
CREATE TABLE IF NOT EXISTS ration_accounts_state (
	id      INT    NOT NULL PRIMARY KEY,
	changes BIGINT NOT NULL
) ENGINE = InnoDB;
INSERT IGNORE INTO ration_accounts_state (id, changes) VALUES (1, 0);

-- A service needs SELECT and INSERT here, and no more: the log only grows.
CREATE TABLE IF NOT EXISTS ration_accounts_audit (
	id      BIGINT          NOT NULL PRIMARY KEY AUTO_INCREMENT,
	at      BIGINT          NOT NULL,
	who     VARBINARY(128)  NOT NULL,
	address VARBINARY(64)   NOT NULL,
	what    VARBINARY(64)   NOT NULL,
	domain  VARBINARY(256)  NOT NULL,
	detail  VARBINARY(4096) NOT NULL,
	KEY (domain, id)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE ration_accounts_audit;
DROP TABLE ration_accounts_state;
DROP TABLE ration_accounts_tokens;
DROP TABLE ration_accounts_sessions;
DROP TABLE ration_accounts_rights;
DROP TABLE ration_accounts_users;
