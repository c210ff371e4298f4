package rules_test

import (
	"strings"
	"testing"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// FuzzParse: whatever a document has, Parse returns rules whose limits are valid and whose paths
// can be read, or an error that names the document, and it does so soon.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		shop,
		"domain: d\ndescriptors:\n- {key: k, bucket: o, rate_limit: {unit: day, requests_per_unit: 1}}",
		"domain: &d d\ndescriptors: [*d]", "a: &a [*a]", "? [x]\n: y", "domain: d\n---\ndomain: e",
		"domain: d\ndescriptors: [{<<: {key: k}}]", "domain: !!str 5", "{{{{", "\xef\xbb\xbfdomain: d",
	} {
		f.Add([]byte(text), "k=v,l")
	}
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		if len(text) > 1<<16 {
			return
		}
		entries, err := rules.ParsePath(path)
		if err == nil {
			if again, err := rules.ParsePath(rules.PathOf(entries...)); err != nil ||
				rules.PathOf(again...) != rules.PathOf(entries...) {
				t.Fatalf("%q: %q, %v", path, again, err)
			}
		}
		r, err := rules.Parse(rules.Document{Name: "x", Text: text})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "rules: x:") {
				t.Fatal(err)
			}
			return
		}
		for _, d := range r.Domains() {
			for _, rule := range d.Rules {
				at, err := rules.ParsePath(rule.Path)
				if err != nil || rule.Limit.Validate() != nil {
					t.Fatalf("%+v, %v", rule, err)
				}
				if _, err := r.Explain(d.Name, rules.Descriptor{Entries: at}); err != nil &&
					len(rule.Path) <= rules.MaxBytes {
					t.Fatal(err)
				}
			}
		}
	})
}
