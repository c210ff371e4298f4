-- +goose Up
-- When a token was last used, and when it ends. 0 is never. This may be made twice, see 00002.
SET @ration_change = IF(
	(SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE()
		AND table_name = 'ration_accounts_tokens' AND column_name = 'used_at') = 0,
	'ALTER TABLE ration_accounts_tokens ADD COLUMN used_at BIGINT NOT NULL DEFAULT 0, ADD COLUMN ends_at BIGINT NOT NULL DEFAULT 0',
	'DO 0');
PREPARE ration_change FROM @ration_change;
EXECUTE ration_change;
DEALLOCATE PREPARE ration_change;

-- +goose Down
ALTER TABLE ration_accounts_tokens DROP COLUMN ends_at, DROP COLUMN used_at;
