package page

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// TestWords: what the editor completes is what rules read, and nothing that they do not know.
func TestWords(t *testing.T) {
	places := map[string]string{
		"domain":      "domain: d\ndescriptors: []\n%s: x\n",
		"descriptors": "domain: d\ndescriptors: [{key: k, %s: x}]\n",
		"rate_limit":  "domain: d\ndescriptors: [{key: k, rate_limit: {%s: x}}]\n",
		"trial":       "domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: true}, trial: {%s: x}}]\n",
		"classes":     "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}, classes: [{%s: x}]}]\n",
		"replaces":    "domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: true, replaces: [{%s: x}]}}]\n",
	}
	unknown := func(text string) bool {
		_, err := rules.ParseDomain("d", []byte(text))
		return err != nil && strings.Contains(err.Error(), "unknown field")
	}
	n := 0
	for of, text := range places {
		if !unknown(fmt.Sprintf(text, "sausage")) {
			t.Fatalf("%s: a field that nobody knows is read", of)
		}
		for _, word := range words[of] {
			if n++; unknown(fmt.Sprintf(text, word)) {
				t.Errorf("%s: rules do not know the field %s", of, word)
			}
		}
	}
	for of, text := range map[string]string{
		"unit:":      "{key: k, rate_limit: {requests_per_unit: 1, unit: %s}}]",
		"kind:":      "{key: k, rate_limit: {unit: day, requests_per_unit: 1, kind: %s}}]",
		"fairness:":  "]\nfairness: %s",
		"outage:":    "]\noutage: %s",
		"unlimited:": "{key: k, rate_limit: {unlimited: %s}}]",
		"shadow_mode:": "{key: k, rate_limit: {unit: day, requests_per_unit: 1}, " +
			"shadow_mode: %s}]",
		"share_threshold:": "{key: k, value: 'a*', rate_limit: {unit: day, requests_per_unit: 1}, " +
			"share_threshold: %s}]",
		"overdraft:":  "{key: k, rate_limit: {unit: day, requests_per_unit: 1}, overdraft: %s}]",
		"quota_mode:": "{key: k, rate_limit: {unit: day, requests_per_unit: 1}, quota_mode: %s}]",
	} {
		for _, word := range words[of] {
			n++
			if _, err := rules.ParseDomain("d", []byte("domain: d\ndescriptors: ["+fmt.Sprintf(text, word))); err != nil {
				t.Errorf("%s %s: %v", of, word, err)
			}
		}
		if _, err := rules.ParseDomain("d", []byte("domain: d\ndescriptors: ["+fmt.Sprintf(text, "sausage"))); err == nil {
			t.Errorf("%s: a value that nobody knows is read", of)
		}
	}
	if n < 50 {
		t.Errorf("%d words", n)
	}
}
