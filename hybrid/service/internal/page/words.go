package page

import "encoding/json"

// words are what the editor completes: the fields of a document, of a descriptor, and below a field,
// and the values of a field, which has a colon.
var words = map[string][]string{
	"domain": {"domain", "descriptors", "fairness", "outage"},
	"descriptors": {
		"key", "value", "rate_limit", "descriptors", "shadow_mode", "percent", "trial", "transform",
		"share_threshold", "classes", "bucket", "overdraft", "quota_mode", "metadata",
	},
	"rate_limit": {
		"unit", "requests_per_unit", "burst", "kind", "offset", "unlimited", "name", "replaces",
	},
	"trial":            {"unit", "requests_per_unit", "burst", "kind", "offset", "percent"},
	"classes":          {"value", "floor", "weight"},
	"replaces":         {"name"},
	"metadata":         {},
	"unit:":            units,
	"kind:":            kinds[1:],
	"fairness:":        {"proportional", "max-min"},
	"outage:":          {"share", "deny", "allow"},
	"unlimited:":       {"true"},
	"shadow_mode:":     {"true"},
	"share_threshold:": {"true"},
	"overdraft:":       {"true", "false"},
	"quota_mode:":      {"true"},
}

// wordsJSON is for the script of the editor.
var wordsJSON = func() string {
	text, err := json.Marshal(words)
	if err != nil {
		panic(err) // they are strings
	}
	return string(text)
}()
