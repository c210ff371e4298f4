-- +goose Up
-- Of a session by an issuer of OpenID Connect: which one, who its person is there, and which groups
-- that is a member of, as a list in JSON. The name is of no user here, and may be that of several
-- people. Sessions by a password have no issuer.
ALTER TABLE ration_accounts_sessions ADD COLUMN issuer BLOB NOT NULL DEFAULT x'';
ALTER TABLE ration_accounts_sessions ADD COLUMN subject BLOB NOT NULL DEFAULT x'';
ALTER TABLE ration_accounts_sessions ADD COLUMN member_of BLOB;

-- The SHA-256 of the secret of a login by an issuer that has made a session: it makes no other one.
CREATE TABLE ration_accounts_logins (
	id      BLOB    NOT NULL PRIMARY KEY,
	made_at INTEGER NOT NULL
) WITHOUT ROWID;

-- +goose Down
DROP TABLE ration_accounts_logins;
ALTER TABLE ration_accounts_sessions DROP COLUMN member_of;
ALTER TABLE ration_accounts_sessions DROP COLUMN subject;
ALTER TABLE ration_accounts_sessions DROP COLUMN issuer;
