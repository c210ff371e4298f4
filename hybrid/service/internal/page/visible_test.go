package page

import (
	"strings"
	"testing"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// TestUnseen: characters that turn the text around them, or that nobody sees, are shown by their
// numbers, whoever has saved them. The editor has the text as it is.
func TestUnseen(t *testing.T) {
	s := newService(t)
	const turned = "domain: shop\ndescriptors:\n" +
		"- {key: user, rate_limit: {name: \"a\u202eb\", unit: hour, requests_per_unit: 1}} # \u2066\n" +
		"- {key: \"c\u202ed\", rate_limit: {unit: hour, requests_per_unit: 1}}\n"
	_, _, err := rules.Save(t.Context(), s.book.Book, rules.Change{
		Domain: "shop", Base: 1, Text: []byte(turned), Author: "ol\u202ega", Reason: "x\u202ey",
	})
	s.must(err)
	s.inForce("shop", 2)
	ann := s.as("ann")
	for path, texts := range map[string][]string{
		"/domains/shop":                {`ol\u202ega`, `“x\u202ey”`, `a\u202eb`, `c\u202ed`},
		"/live/shop":                   {`a\u202eb`},
		"/domains/shop/history":        {`ol\u202ega`, `“x\u202ey”`},
		"/domains/shop/versions/2":     {`name: "a\u202eb"`, `# \u2066`},
		"/domains/shop/rule?path=user": {`a\u202eb`, `x\u202ey`},
		"/domains/shop/explain?descriptors=%22c%E2%80%AEd%22%3Dx": {`c\u202ed`},
	} {
		a := ann.get(path)
		a.want(t, 200, texts...)
		before, _, _ := strings.Cut(a.text, "<textarea")
		if strings.ContainsAny(before, "\u202e\u2066") {
			t.Errorf("%s turns its text: %s", path, a.text)
		}
	}
	if a := ann.get("/domains/shop/edit"); !strings.Contains(a.text, "a\u202eb") {
		t.Errorf("the editor has another text: %s", a.text)
	}
	ann.post("/users", "name", "a\u202eb", "password", password).want(t, 422, `Name "a\u202eb" has a`)
	ann.post("/account/tokens", "title", "").want(t, 422, "A name is missing.")
}

// TestDiffer: what changes a rule reads like a sentence, without what stays as it was.
func TestDiffer(t *testing.T) {
	for _, try := range [][4]string{
		{"60/minute", "100/minute", "60/minute", "100/minute"},
		{`6/minute, shadow, name "a"`, `9/minute, shadow, name "a"`, "6/minute", "9/minute"},
		{`6/hour, name "x, b"`, `6/hour, name "y, b"`, `6/hour, name "x, b"`, `6/hour, name "y, b"`},
		{"6/minute, shadow", "6/minute", "6/minute, shadow", "6/minute"},
		{"", "6/minute", "", "6/minute"},
		{"domain", "domain, outage deny", "domain", "domain, outage deny"},
	} {
		if d := differ(rules.Difference{Was: try[0], Is: try[1]}); d.Was != try[2] || d.Is != try[3] {
			t.Errorf("%q and %q: %+v", try[0], try[1], d)
		}
	}
	s := newService(t)
	s.saved("shop", 1, strings.Replace(shop, "unit: 50,", "unit: 60,", 1)+
		"  - {key: z, rate_limit: {unit: day, requests_per_unit: 1}}\n")
	s.inForce("shop", 2)
	s.as("vic").get("/domains/shop/history").want(t, 200, "z is new: 1/day",
		"path=/search: 50/second → 60/second z is new")
	s.as("ed").get("/domains/shop/versions/1").want(t, 200, "z is gone: 1/day")
}
