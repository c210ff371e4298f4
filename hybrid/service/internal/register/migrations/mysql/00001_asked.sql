-- +goose Up
-- When a rule was first known, and when a request last asked for it: microseconds since 1970, by the
-- clock of the service. 0 is never. A rule is the first half of a SHA-256 of its domain and path.
CREATE TABLE IF NOT EXISTS ration_asked_rules (
	rule     VARBINARY(16) NOT NULL PRIMARY KEY,
	known_at BIGINT        NOT NULL,
	asked_at BIGINT        NOT NULL
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE ration_asked_rules;
