package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// parseLimit reads a limit as the differences of rules have it: "5/minute", "5/minute burst 10",
// "5/minute by the calendar" or "5 in any minute". Package rules says what it means, so that it is
// the same limit as in a document.
func parseLimit(text string) (hybrid.Limit, error) {
	fields, ok := limitFields(text)
	if !ok {
		return hybrid.Limit{}, errors.New(`it is not like "5/minute", "5/minute burst 10", ` +
			`"5/minute by the calendar" or "5 in any minute"`)
	}
	document, err := json.Marshal(map[string]any{ // JSON is YAML
		"domain":      "limit",
		"descriptors": []any{map[string]any{"key": "limit", "rate_limit": fields}},
	})
	if err != nil {
		return hybrid.Limit{}, err
	}
	set, err := rules.Parse(rules.Document{Text: document})
	if err != nil {
		for _, m := range mistakes(err) {
			return hybrid.Limit{}, errors.New(m.Text)
		}
		return hybrid.Limit{}, fmt.Errorf("it is no limit: %w", err)
	}
	domain, _ := set.Domain("limit")
	return domain.Rules[0].Limit, nil
}

// limitFields are those of a rate_limit.
func limitFields(text string) (map[string]any, bool) {
	number, unit, kind := "", "", ""
	words := strings.Fields(text)
	if len(words) == 4 && words[1] == "in" && words[2] == "any" {
		number, unit, kind = words[0], words[3], "sliding"
	} else if len(words) > 0 {
		number, unit, _ = strings.Cut(words[0], "/")
	}
	f := map[string]any{"unit": unit, "requests_per_unit": json.Number(number)}
	switch {
	case kind == "sliding":
		f["kind"] = kind
	case len(words) == 4 && strings.Join(words[1:], " ") == "by the calendar":
		f["kind"] = "quota"
	case len(words) == 3 && words[1] == "burst":
		f["burst"] = json.Number(words[2])
	case len(words) != 1:
		return nil, false
	}
	return f, digits(number) && unit != "" && (f["burst"] == nil || digits(words[2]))
}

// digits reports whether a text is a number as JSON has whole ones.
func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == "" && (s == "0" || s[0] != '0')
}
