package rules_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/internal/bookstest"
)

// commented is a document with comments in all places where people put them.
const commented = `# Rules of the shop.
# Asked for by finance.
domain: shop # not the bank

# Sorted by key.
descriptors:
  # Each user.
  - key: user # by id
    # Raised in May.
    rate_limit:
      unit: minute # not second
      requests_per_unit: 5 # was 3
    descriptors:
      # Uploads are dear.
      - key: path
        value: /upload
        rate_limit: {unit: hour, requests_per_unit: 10} # of each user
  # Everybody.
  - key: all
    rate_limit:
      unit: second
      requests_per_unit: 1000
# The end.
`

func set(t *testing.T, text, path, rule string) string {
	t.Helper()
	edited, err := rules.SetRule([]byte(text), path, []byte(rule))
	if err != nil {
		t.Fatal(err)
	}
	return string(edited)
}

func del(t *testing.T, text, path string) string {
	t.Helper()
	edited, err := rules.DeleteRule([]byte(text), path)
	if err != nil {
		t.Fatal(err)
	}
	return string(edited)
}

// differences are the lines of a Diff of two texts.
func differences(t *testing.T, was, is string) string {
	t.Helper()
	var parsed [2]*rules.Rules
	for i, text := range []string{was, is} {
		r, err := rules.Parse(rules.Document{Name: "test", Text: []byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		parsed[i] = r
	}
	var lines []string
	for _, d := range rules.Diff(parsed[0], parsed[1]) {
		lines = append(lines, d.String())
	}
	return strings.Join(lines, "\n")
}

// comments of a text, in their order.
func comments(text string) (list []string) {
	for line := range strings.Lines(text) {
		if _, comment, ok := strings.Cut(line, "# "); ok {
			list = append(list, strings.TrimSpace(comment))
		}
	}
	return list
}

// TestSetRule: one rule changes, and all else stays, with the comments.
func TestSetRule(t *testing.T) {
	for _, c := range []struct{ name, path, rule, want string }{
		{"the same", "user", "rate_limit: {unit: minute, requests_per_unit: 5}", ""},
		{"another number", "user", "rate_limit: {unit: minute, requests_per_unit: 7}",
			"shop user: 5/minute -> 7/minute"},
		{"more fields", "all",
			"rate_limit: {unit: second, requests_per_unit: 1000, burst: 20}\nshadow_mode: true",
			"shop all: 1000/second -> 1000/second burst 20, shadow"},
		{"below another", "user,path=/upload", "rate_limit: {unit: hour, requests_per_unit: 11}",
			"shop user,path=/upload: 10/hour -> 11/hour"},
		{"a new one", "ip", "transform: ip/64\nrate_limit: {unit: day, requests_per_unit: 9}",
			"shop ip: none -> 9/day by the calendar, by ip/64"},
		{"a new one below", "user,path=/a*", "rate_limit: {unlimited: true}",
			"shop user,path=/a*: none -> unlimited"},
		{"a new branch", `tenant="a b",user`, "rate_limit: {unit: second, requests_per_unit: 0}",
			`shop tenant="a b",user: none -> 0/second`},
	} {
		edited := set(t, commented, c.path, c.rule)
		if got := differences(t, commented, edited); got != c.want {
			t.Errorf("%s: %s\n%s", c.name, got, edited)
		}
		if was, is := comments(commented), comments(edited); fmt.Sprint(was) != fmt.Sprint(is) {
			t.Errorf("%s: %q\nhave become %q\n%s", c.name, was, is, edited)
		}
		if c.want == "" && edited != strings.Replace(commented, "bank\n\n", "bank\n", 1) {
			t.Errorf("%s: the layout is another one:\n%s", c.name, edited)
		}
		if again := set(t, edited, c.path, c.rule); again != edited {
			t.Errorf("%s: again it becomes\n%s", c.name, again)
		}
	}
}

// TestSetRuleReplaces: a field that the new rule does not have goes.
func TestSetRuleReplaces(t *testing.T) {
	text := set(t, "domain: shop", "user",
		"shadow_mode: true\nrate_limit: {unit: second, requests_per_unit: 1, burst: 3, name: x}")
	text = set(t, text, "user", "rate_limit: {unit: second, requests_per_unit: 2}")
	want := "domain: shop\ndescriptors:\n  - key: user\n" +
		"    rate_limit: {unit: second, requests_per_unit: 2}\n"
	if text != want {
		t.Errorf("%s", text)
	}
	for _, null := range []string{"descriptors: null", "descriptors:", "descriptors: []"} {
		empty := "domain: shop\n" + null
		got := differences(t, text, set(t, empty, "user",
			"rate_limit: {unit: second, requests_per_unit: 2}"))
		if got != "" {
			t.Errorf("%s: %s", null, got)
		}
	}
}

// TestSetLimit: a limit changes, and all else of its descriptor stays.
func TestSetLimit(t *testing.T) {
	const head = "domain: shop\ndescriptors:\n- key: user # each\n"
	for _, c := range []struct{ text, path, limit, want string }{
		{head + "  shadow_mode: true\n  rate_limit: {unit: minute, requests_per_unit: 5, burst: 9, name: n}\n",
			"user", "{unit: day, requests_per_unit: 7}",
			head + "  shadow_mode: true\n  rate_limit: {unit: day, requests_per_unit: 7, name: n}\n"},
		{head + "  rate_limit:\n    unit: minute # why\n    requests_per_unit: 5\n", "user",
			"{unit: hour, requests_per_unit: 7, burst: 2}",
			head + "  rate_limit:\n    unit: hour # why\n    requests_per_unit: 7\n    burst: 2\n"},
		{head + "  rate_limit: {unlimited: true}\n  descriptors: []\n", "user",
			"{unit: hour, requests_per_unit: 7}",
			head + "  rate_limit: {unit: hour, requests_per_unit: 7}\n  descriptors: []\n"},
		{head + "  transform: ip/64\n  descriptors:\n  - key: path\n", "user",
			"{unit: hour, requests_per_unit: 7}",
			head + "  transform: ip/64\n  rate_limit: {unit: hour, requests_per_unit: 7}\n" +
				"  descriptors:\n  - key: path\n"},
		{head + "  rate_limit: null\n", "user", "{unlimited: true}",
			head + "  rate_limit: {unlimited: true}\n"},
		{head, "user,path=/a", "{unlimited: true}",
			head + "  descriptors:\n  - key: path\n    value: /a\n    rate_limit: {unlimited: true}\n"},
	} {
		text, err := rules.SetLimit([]byte(c.text), c.path, []byte(c.limit))
		if err != nil || string(text) != c.want {
			t.Errorf("%s: %v\n%s\nnot\n%s", c.limit, err, text, c.want)
		}
	}
	for limit, want := range map[string]string{
		"": "no documents", "[]": "mapping", "{unit: day}": "requests_per_unit",
		"{unlimited: true, name: n}": "field name", "{unlimited: true, replaces: []}": "field replaces",
		"{unit: day, unit: day, requests_per_unit: 1}": `"unit" twice`,
		"{unit: parsec, requests_per_unit: 1}":         "parsec",
	} {
		if text, err := rules.SetLimit([]byte(commented), "user", []byte(limit)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\n%s", limit, err, text)
		}
	}
}

// TestDeleteRule: the rule goes, and what has no use without it.
func TestDeleteRule(t *testing.T) {
	edited := del(t, commented, "user")
	if got := differences(t, commented, edited); got != "shop user: 5/minute -> none" {
		t.Errorf("%s\n%s", got, edited)
	}
	edited = del(t, edited, "user,path=/upload")
	if got := differences(t, commented, edited); got !=
		"shop user: 5/minute -> none\nshop user,path=/upload: 10/hour -> none" ||
		strings.Contains(edited, "user") {
		t.Errorf("%s\n%s", got, edited)
	}
	if !strings.Contains(edited, "# Everybody.") || !strings.Contains(edited, "# not the bank") {
		t.Errorf("comments have gone:\n%s", edited)
	}
	if edited = del(t, edited, "all"); strings.Contains(edited, "descriptors") {
		t.Errorf("an empty list stays:\n%s", edited)
	}
}

// TestDeleteAbove: what is below a rule that is deleted keeps its buckets.
func TestDeleteAbove(t *testing.T) {
	text := `domain: d
descriptors:
- key: address
  transform: ip/64
  rate_limit: {unit: minute, requests_per_unit: 5}
  descriptors:
  - {key: path, rate_limit: {unit: day, requests_per_unit: 9}}
- key: path
  value: /a*
  share_threshold: true
  rate_limit: {unit: minute, requests_per_unit: 5}
  descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 9}}
`
	edited := del(t, del(t, text, "address"), "path=/a*")
	was, is := keys(t, text), keys(t, edited)
	if was != is {
		t.Errorf("%s has become %s:\n%s", was, is, edited)
	}
}

// keys are those of two buckets in the store.
func keys(t *testing.T, text string) string {
	t.Helper()
	r, err := parse(text)
	must(t, err)
	e, err := r.Explain("d", rules.Of("address", "2001:db8::1").And("path", "/"),
		rules.Of("path", "/ab").And("user", "ann"))
	must(t, err)
	return e[0].Key + " " + e[1].Key
}

// TestEditErrors: what cannot be done, or would be no valid text, is an error that says why.
func TestEditErrors(t *testing.T) {
	valid := "rate_limit: {unit: second, requests_per_unit: 1}"
	for _, c := range []struct{ text, path, rule, want string }{
		{commented, "user", "", "no documents"}, {commented, "user", "- a", "mapping"},
		{commented, "user", "shadow_mode: true", "no rate_limit"},
		{commented, "user", "key: a\n" + valid, "field key"},
		{commented, "user", "descriptors: []\n" + valid, "field descriptors"},
		{commented, "user", "rate_limit: {unit: parsec, requests_per_unit: 1}", "parsec"},
		{commented, "user", "rate_limit: {unit: second, requests_per_unit: 1", "rule"},
		{commented, "user", "rate_limit: &a {unit: second, requests_per_unit: *a}", "anchor"},
		{commented, "", valid, "path"}, {commented, "user,", valid, "path"},
		{commented, "=", valid, "path"},
		{"domain: [", "user", valid, ""}, {"", "user", valid, "no documents"},
		{commented, strings.Repeat("a,", 20) + "a", valid, "deep"},
		{commented, "user", valid + "\n---\na: b", ""},
		{commented, "user", valid + "\n" + valid, `field "rate_limit" twice, in line 2`},
		{commented, "user", "rate_limit: {unit: day, unit: day, requests_per_unit: 1}", `"unit" twice`},
	} {
		text, err := rules.SetRule([]byte(c.text), c.path, []byte(c.rule))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q: %v\n%s", c.path, c.rule, err, text)
		}
	}
	for _, path := range []string{"", "nobody", "user,path", "user,path=/upload,a", "all=1"} {
		if text, err := rules.DeleteRule([]byte(commented), path); err == nil {
			t.Errorf("%s: %s", path, text)
		}
	}
	if _, err := rules.DeleteRule([]byte(del(t, commented, "user")), "user"); err == nil {
		t.Error("a descriptor without a limit is deleted")
	}
}

// TestDiff: what decides is a difference, and nothing else is.
func TestDiff(t *testing.T) {
	list := func(descriptors ...string) string {
		return "domain: shop\ndescriptors:\n" + strings.Join(descriptors, "")
	}
	a := "- {key: a, value: x*, rate_limit: {unit: second, requests_per_unit: 1}}\n"
	b := "- {key: a, value: xy*, rate_limit: {unit: second, requests_per_unit: 2}}\n"
	for _, c := range []struct{ name, was, is, want string }{
		{"comments and layout", commented, set(t, commented, "all",
			"rate_limit: {unit: second, requests_per_unit: 1000}"), ""},
		{"settings of the domain", "domain: shop", "domain: shop\noutage: deny",
			"shop: domain -> domain, outage deny"},
		{"wildcards in another order", list(a, b), list(b, a),
			"shop a=x*: 1/second -> 1/second, after a=xy*\nshop a=xy*: 2/second, after a=x* -> 2/second"},
		{"an exemption", list(a), list(a, "- {key: a, value: xz}\n"),
			"shop a=xz: none -> no limit"},
		{"another domain", list(a), "domain: bank",
			"bank: none -> domain\nshop: domain -> none\nshop a=x*: 1/second -> none"},
		{"a transform above", list("- {key: b, transform: ip/64, descriptors: [{key: c, rate_limit: " +
			"{unit: day, requests_per_unit: 1}}]}\n"), list("- {key: b, descriptors: [{key: c, " +
			"rate_limit: {unit: day, requests_per_unit: 1}}]}\n"),
			"shop b: by ip/64 -> none\n" +
				"shop b,c: 1/day by the calendar, b by ip/64 -> 1/day by the calendar"},
		{"an overdraft", list(a), list(strings.Replace(a, "x*,", "x*, overdraft: false,", 1)),
			"shop a=x*: 1/second -> 1/second, overdraft false"},
		{"a step on the way", list("- {key: b, descriptors: [{key: c, rate_limit: " +
			"{unit: day, requests_per_unit: 1}}]}\n"), "domain: shop",
			"shop b,c: 1/day by the calendar -> none"},
	} {
		if got := differences(t, c.was, c.is); got != c.want {
			t.Errorf("%s:\n%s\nand not\n%s", c.name, got, c.want)
		}
	}
	if got := rules.Diff(nil, nil); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// TestSave: a text with a mistake, or of another domain, is not written.
func TestSave(t *testing.T) {
	book := bookstest.NewMemory().Open()
	save := func(base int64, text string) (rules.Revision, []rules.Difference, error) {
		c := rules.Change{Domain: "shop", Base: base, Author: "ann", Reason: "test"}
		if text != "" {
			c.Text = []byte(text)
		}
		return rules.Save(t.Context(), book, c)
	}
	var mistake *rules.Error
	for _, text := range []string{"domain: bank", "domain: [", "domain: shop\nlimits: 1"} {
		if r, _, err := save(0, text); !errors.As(err, &mistake) {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
	if docs, _, err := book.Load(t.Context()); err != nil || len(docs) != 0 {
		t.Fatalf("%v, %v", docs, err)
	}
	_, d, err := save(0, set(t, "domain: shop", "user",
		"rate_limit: {unit: second, requests_per_unit: 1}"))
	if want := "[shop: none -> domain shop user: none -> 1/second]"; err != nil ||
		fmt.Sprint(d) != want {
		t.Errorf("%v, %v", d, err)
	}
	if _, _, err := save(0, commented); !errors.Is(err, rules.ErrConflict) {
		t.Error(err)
	}
	if _, _, err := save(7, commented); !errors.Is(err, rules.ErrConflict) {
		t.Error(err)
	}
	if _, d, err = save(1, ""); err != nil || len(d) != 2 || d[0].Is != "" || d[1].Is != "" {
		t.Errorf("%v, %v", d, err)
	}
}

// FuzzSetRule: whatever is edited, the text is valid, and the rule is there and can be deleted.
func FuzzSetRule(f *testing.F) {
	rule := "rate_limit: {unit: second, requests_per_unit: 1}"
	for _, text := range []string{
		commented, "domain: a", "domain: a\ndescriptors: []", "{domain: a}",
	} {
		for _, path := range []string{"user", "user,path=/upload", `"a b"=c*`, "a=b,c=d"} {
			f.Add(text, path, rule)
		}
	}
	f.Add(commented, "all", "# why\nshadow_mode: true # so\nrate_limit: !!map\n  unlimited: true")
	f.Add("domain: a # b\n---", "a", "rate_limit: {unit: 'day', requests_per_unit: 0x10}")
	f.Fuzz(func(t *testing.T, text, path, rule string) {
		edited, err := rules.SetRule([]byte(text), path, []byte(rule))
		if err != nil {
			return
		}
		parse := func(text []byte) rules.Domain {
			r, err := rules.Parse(rules.Document{Name: "edited", Text: text})
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			return r.Domains()[0]
		}
		entries, err := rules.ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		has := func(text []byte) bool {
			return slices.ContainsFunc(parse(text).Rules, func(r rules.Rule) bool {
				return r.Path == rules.PathOf(entries...)
			})
		}
		if !has(edited) {
			t.Fatalf("no rule %s in\n%s", path, edited)
		}
		again, err := rules.SetRule(edited, path, []byte(rule))
		if err != nil || !has(again) {
			t.Fatalf("again: %v\n%s\n%s", err, edited, again)
		}
		deleted, err := rules.DeleteRule(edited, path)
		if err == nil && has(deleted) {
			t.Fatalf("%s was not deleted:\n%s", path, deleted)
		}
	})
}
