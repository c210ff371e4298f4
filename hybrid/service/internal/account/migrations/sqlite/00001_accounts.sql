-- +goose Up
-- Names, domains and texts are bytes: no collation makes two names one. Times are microseconds
-- since 1970, by the clock of the service. A user without a password cannot log in with one.
CREATE TABLE ration_accounts_users (
	name     BLOB    NOT NULL PRIMARY KEY,
	password BLOB    NOT NULL,
	made_at  INTEGER NOT NULL
) WITHOUT ROWID;

-- The domain * is all domains. Roles are 1 viewer, 2 editor, 3 admin.
CREATE TABLE ration_accounts_rights (
	name   BLOB    NOT NULL,
	domain BLOB    NOT NULL,
	role   INTEGER NOT NULL,
	PRIMARY KEY (name, domain)
) WITHOUT ROWID;

-- The SHA-256 of a cookie's value.
CREATE TABLE ration_accounts_sessions (
	id      BLOB    NOT NULL PRIMARY KEY,
	name    BLOB    NOT NULL,
	made_at INTEGER NOT NULL,
	seen_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX ration_accounts_sessions_name ON ration_accounts_sessions (name);

-- The SHA-256 of a token, and what its user calls it.
CREATE TABLE ration_accounts_tokens (
	id      BLOB    NOT NULL PRIMARY KEY,
	name    BLOB    NOT NULL,
	title   BLOB    NOT NULL,
	made_at INTEGER NOT NULL,
	UNIQUE (name, title)
) WITHOUT ROWID;

-- One row. A change of users locks it first, so that the last admin stays.
CREATE TABLE ration_accounts_state (
	id      INTEGER NOT NULL PRIMARY KEY,
	changes INTEGER NOT NULL
);
INSERT INTO ration_accounts_state (id, changes) VALUES (1, 0);

CREATE TABLE ration_accounts_audit (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	at      INTEGER NOT NULL,
	who     BLOB    NOT NULL,
	address BLOB    NOT NULL,
	what    BLOB    NOT NULL,
	domain  BLOB    NOT NULL,
	detail  BLOB    NOT NULL
);
CREATE INDEX ration_accounts_audit_domain ON ration_accounts_audit (domain, id);

-- +goose StatementBegin
CREATE TRIGGER ration_accounts_audit_stays BEFORE DELETE ON ration_accounts_audit BEGIN
	SELECT RAISE(ABORT, 'the audit log only grows');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER ration_accounts_audit_is_true BEFORE UPDATE ON ration_accounts_audit BEGIN
	SELECT RAISE(ABORT, 'the audit log only grows');
END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE ration_accounts_audit;
DROP TABLE ration_accounts_state;
DROP TABLE ration_accounts_tokens;
DROP TABLE ration_accounts_sessions;
DROP TABLE ration_accounts_rights;
DROP TABLE ration_accounts_users;
