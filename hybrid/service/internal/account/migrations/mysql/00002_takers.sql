-- +goose Up
-- A token that takes from limits, and neither sees nor changes rules. Those from before do all that
-- their users may. MySQL has no ADD COLUMN IF NOT EXISTS, and this may be made twice.
SET @ration_change = IF(
	(SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE()
		AND table_name = 'ration_accounts_tokens' AND column_name = 'takes_only') = 0,
	'ALTER TABLE ration_accounts_tokens ADD COLUMN takes_only INT NOT NULL DEFAULT 0',
	'DO 0');
PREPARE ration_change FROM @ration_change;
EXECUTE ration_change;
DEALLOCATE PREPARE ration_change;

-- +goose Down
ALTER TABLE ration_accounts_tokens DROP COLUMN takes_only;
