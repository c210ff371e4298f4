-- +goose Up
-- Of a session by an issuer of OpenID Connect: which one, who its person is there, and which groups
-- that is a member of, as a list in JSON. The name is of no user here, and may be that of several
-- people. Sessions by a password have no issuer. This may be made twice, see 00002.
SET @ration_change = IF(
	(SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE()
		AND table_name = 'ration_accounts_sessions' AND column_name = 'issuer') = 0,
	'ALTER TABLE ration_accounts_sessions ADD COLUMN issuer VARBINARY(512) NOT NULL DEFAULT '''', ADD COLUMN subject VARBINARY(255) NOT NULL DEFAULT '''', ADD COLUMN member_of MEDIUMBLOB',
	'DO 0');
PREPARE ration_change FROM @ration_change;
EXECUTE ration_change;
DEALLOCATE PREPARE ration_change;

-- The SHA-256 of the secret of a login by an issuer that has made a session: it makes no other one.
CREATE TABLE IF NOT EXISTS ration_accounts_logins (
	id      VARBINARY(32) NOT NULL PRIMARY KEY,
	made_at BIGINT        NOT NULL
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE ration_accounts_logins;
ALTER TABLE ration_accounts_sessions DROP COLUMN member_of, DROP COLUMN subject, DROP COLUMN issuer;
