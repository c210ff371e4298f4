-- +goose Up
-- When a rule was first known, and when a request last asked for it: microseconds since 1970, by the
-- clock of the service. 0 is never. A rule is the first half of a SHA-256 of its domain and path.
CREATE TABLE ration_asked_rules (
	rule     BLOB    NOT NULL PRIMARY KEY,
	known_at INTEGER NOT NULL,
	asked_at INTEGER NOT NULL
) WITHOUT ROWID;

-- +goose Down
DROP TABLE ration_asked_rules;
