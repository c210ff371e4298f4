-- +goose Up
-- A token that takes from limits, and neither sees nor changes rules. Those from before do all that
-- their users may.
ALTER TABLE ration_accounts_tokens ADD COLUMN takes_only INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE ration_accounts_tokens DROP COLUMN takes_only;
