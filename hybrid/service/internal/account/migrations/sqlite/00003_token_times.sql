-- +goose Up
-- When a token was last used, and when it ends. 0 is never.
ALTER TABLE ration_accounts_tokens ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ration_accounts_tokens ADD COLUMN ends_at INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE ration_accounts_tokens DROP COLUMN ends_at;
ALTER TABLE ration_accounts_tokens DROP COLUMN used_at;
