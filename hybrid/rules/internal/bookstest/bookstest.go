// Package bookstest holds each rules.Book to what the interface promises. It is for tests.
package bookstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/internal/book"
)

// A State is that of one book, which is empty at first.
type State interface {
	// Open returns a Book of the state, as another process has it.
	Open() rules.Book
	// Wipe loses the state, as a server that comes back without its files. The book can be
	// written again afterwards.
	Wipe()
}

// patience is for a machine that is busy.
const patience = 20 * time.Second

// Test holds a kind of Book to all promises. Each test has a state of its own.
func Test(t *testing.T, start func(t *testing.T) State) {
	for _, c := range []struct {
		name string
		test func(*testing.T, State)
	}{
		{"Life", life}, {"Conflict", conflict}, {"SavedAgain", savedAgain},
		{"EditorsAtOnce", editorsAtOnce}, {"HistoryByPages", historyByPages},
		{"RollBack", rollBack}, {"Bounds", bounds}, {"Hostile", hostile},
		{"Wait", wait}, {"WaitEnds", waitEnds}, {"StateLost", stateLost},
		{"LimiterKeepsRules", limiterKeepsRules}, {"TooManyDomains", tooManyDomains},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, start(t)) })
	}
}

// An editor is a Book whose calls succeed.
type editor struct {
	testing.TB
	rules.Book
}

// text is valid rules of a domain.
func text(domain string, n int) []byte {
	return fmt.Appendf(nil, "domain: %q\ndescriptors:\n- key: user\n"+
		"  rate_limit: {unit: minute, requests_per_unit: %d}\n", domain, n)
}

func (e editor) save(domain string, base int64, text []byte) rules.Revision {
	e.Helper()
	r, err := e.Save(e.Context(), change(domain, base, text))
	if err != nil {
		e.Fatal(err)
	}
	return r
}

func change(domain string, base int64, text []byte) rules.Change {
	return rules.Change{Domain: domain, Base: base, Text: text, Author: "ann", Reason: "test"}
}

func (e editor) load() map[string]rules.Document {
	e.Helper()
	docs, _, err := e.Load(e.Context())
	if err != nil {
		e.Fatal(err)
	}
	if !slices.IsSortedFunc(docs, func(a, b rules.Document) int {
		return strings.Compare(a.Domain, b.Domain)
	}) {
		e.Error("documents are in no order: a reader would take each for another state")
	}
	byName := map[string]rules.Document{}
	for _, d := range docs {
		byName[d.Domain] = d
	}
	return byName
}

func (e editor) history(domain string, before int64, n int) []rules.Revision {
	e.Helper()
	list, err := e.History(e.Context(), domain, before, n)
	if err != nil {
		e.Fatal(err)
	}
	return list
}

func versions(list []rules.Revision) (v []int64) {
	for _, r := range list {
		v = append(v, r.Version)
	}
	return v
}

// life is that of a domain: made, changed, deleted and made again, attributed each time.
func life(t *testing.T, s State) {
	e := editor{t, s.Open()}
	if docs := e.load(); len(docs) != 0 {
		t.Fatalf("an empty book has %v", docs)
	}
	if list := e.history("shop", 0, 10); len(list) != 0 {
		t.Fatalf("a domain that never was has a history: %v", list)
	}
	one := text("shop", 1)
	made, err := e.Save(t.Context(), rules.Change{
		Domain: "shop", Text: one, Author: "bob", Reason: "it begins",
	})
	if err != nil || made.Version != 1 || made.Domain != "shop" || made.Author != "bob" ||
		made.Reason != "it begins" || !bytes.Equal(made.Text, one) {
		t.Fatalf("%+v, %v", made, err)
	}
	e.save("shop", 1, text("shop", 2))
	e.save("other", 0, text("other", 1))
	other := editor{t, s.Open()}
	docs := other.load()
	if d := docs["shop"]; len(docs) != 2 || d.Version != 2 || !bytes.Equal(d.Text, text("shop", 2)) {
		t.Fatalf("%v", docs)
	}
	if name := docs["shop"].Name; !strings.HasSuffix(name, " shop@2") {
		t.Errorf("a document's name is %q", name)
	}
	if gone := e.save("shop", 2, nil); gone.Version != 3 || gone.Text != nil {
		t.Errorf("deleted as %+v", gone)
	}
	if docs := other.load(); len(docs) != 1 {
		t.Errorf("after a deletion: %v", docs)
	}
	if r := e.save("shop", 0, text("shop", 4)); r.Version != 4 {
		t.Errorf("made again as version %d", r.Version)
	}
	e.save("shop", 4, nil)
	if r := e.save("shop", 5, text("shop", 6)); r.Version != 6 {
		t.Errorf("made again over the deletion as version %d", r.Version)
	}
	other.whole(made, one)
}

// whole looks at the history of six revisions, of which made was the first, with that text.
func (e editor) whole(made rules.Revision, one []byte) {
	t := e.TB
	list := e.history("shop", 0, 100)
	if want := []int64{6, 5, 4, 3, 2, 1}; !slices.Equal(versions(list), want) {
		t.Fatalf("%v", versions(list))
	}
	if r := list[5]; r.Author != "bob" || r.Reason != "it begins" || !r.Time.Equal(made.Time) ||
		!bytes.Equal(r.Text, one) {
		t.Errorf("the first revision is %+v", r)
	}
	for i := range list[:5] {
		if list[i].Time.Before(list[i+1].Time) {
			t.Errorf("version %d is of %v, before that of %d", list[i].Version, list[i].Time,
				list[i+1].Version)
		}
	}
}

// conflict: a change over any version but the newest is not made.
func conflict(t *testing.T, s State) {
	e := editor{t, s.Open()}
	refused := func(base int64, text []byte) {
		t.Helper()
		_, err := e.Save(t.Context(), change("shop", base, text))
		if !errors.Is(err, rules.ErrConflict) {
			t.Errorf("base %d: %v", base, err)
		}
	}
	refused(1, text("shop", 1))
	refused(1, nil)
	e.save("shop", 0, text("shop", 1))
	e.save("shop", 1, text("shop", 2))
	for _, base := range []int64{0, 1, 3, 1 << 60} {
		refused(base, text("shop", 9))
	}
	refused(1, nil)
	e.save("shop", 2, nil)
	refused(3, nil) // it is deleted already
	refused(2, text("shop", 9))
	if v := versions(e.history("shop", 0, 9)); !slices.Equal(v, []int64{3, 2, 1}) {
		t.Errorf("%v", v)
	}
}

// savedAgain: an editor whose answer was lost saves the same again, and learns that it is there.
func savedAgain(t *testing.T, s State) {
	e, other := editor{t, s.Open()}, editor{t, s.Open()}
	for base, text := range [][]byte{text("shop", 1), text("shop", 2), nil} {
		first, again := e.save("shop", int64(base), text), other.save("shop", int64(base), text)
		if again.Version != first.Version || !again.Time.Equal(first.Time) ||
			(again.Text == nil) != (text == nil) {
			t.Errorf("%+v, and again %+v", first, again)
		}
	}
	if v := versions(e.history("shop", 0, 9)); !slices.Equal(v, []int64{3, 2, 1}) {
		t.Errorf("%v", v)
	}
	c := change("shop", 3, text("shop", 4))
	if _, err := e.Save(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, alter := range []func(*rules.Change){
		func(c *rules.Change) { c.Author = "eve" },
		func(c *rules.Change) { c.Reason = "another" },
		func(c *rules.Change) { c.Text = text("shop", 5) },
		func(c *rules.Change) { c.Text = nil },
	} {
		other := c
		alter(&other)
		if _, err := e.Save(t.Context(), other); !errors.Is(err, rules.ErrConflict) {
			t.Errorf("another change with the same base: %v", err)
		}
	}
	e.save("shop", 4, text("shop", 5))
	if _, err := e.Save(t.Context(), c); !errors.Is(err, rules.ErrConflict) {
		t.Errorf("saved again after another change: %v", err)
	}
}

// editorsAtOnce: each editor adds a line to what it has read, until all are in. No line is lost
// and no version skipped.
func editorsAtOnce(t *testing.T, s State) {
	const editors, each = 8, 25
	domains := []string{"shop", "bank"}
	var wg sync.WaitGroup
	conflicts := make([]int, editors)
	for i := range editors {
		b := s.Open()
		wg.Go(func() {
			for n := range each {
				line := fmt.Sprintf("# line %d of editor %d\n", n, i)
				c, err := addLine(t.Context(), b, domains[i%2], line)
				if conflicts[i] += c; err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, c := range conflicts {
		sum += c
	}
	t.Logf("%d changes, and %d conflicts", editors*each, sum)
	e := editor{t, s.Open()}
	for _, domain := range domains {
		list := e.history(domain, 0, 100)
		if len(list) != editors/2*each {
			t.Fatalf("%d revisions", len(list))
		}
		before := 0
		for i, r := range slices.Backward(list) {
			if r.Version != int64(len(list)-i) || bytes.Count(r.Text, []byte("\n")) != before+1 {
				t.Fatalf("revision %d has version %d and the text %s", len(list)-i, r.Version, r.Text)
			}
			before++
		}
	}
}

// addLine adds a line to the text of a domain, and returns how many conflicts it took.
func addLine(ctx context.Context, b rules.Book, domain, line string) (conflicts int, err error) {
	for {
		docs, _, err := b.Load(ctx)
		if err != nil {
			return conflicts, err
		}
		var d rules.Document
		for _, x := range docs {
			if x.Domain == domain {
				d = x
			}
		}
		_, err = b.Save(ctx, change(domain, d.Version, append(bytes.Clone(d.Text), line...)))
		if !errors.Is(err, rules.ErrConflict) {
			return conflicts, err
		}
		conflicts++
	}
}

// historyByPages: newest first, before a version.
func historyByPages(t *testing.T, s State) {
	e := editor{t, s.Open()}
	for v := range int64(9) {
		e.save("shop", v, text("shop", int(v)+1))
	}
	for _, c := range []struct {
		before int64
		n      int
		want   []int64
	}{
		{0, 2, []int64{9, 8}}, {8, 3, []int64{7, 6, 5}}, {3, 9, []int64{2, 1}},
		{1, 9, nil}, {100, 1, []int64{9}}, {1<<63 - 1, 1, []int64{9}},
	} {
		if v := versions(e.history("shop", c.before, c.n)); !slices.Equal(v, c.want) {
			t.Errorf("%d before %d: %v, not %v", c.n, c.before, v, c.want)
		}
	}
}

// rollBack: an old text comes back as a new version, also over a deletion.
func rollBack(t *testing.T, s State) {
	e := editor{t, s.Open()}
	for v := range int64(3) {
		e.save("shop", v, text("shop", int(v)+1))
	}
	r, differences, err := rules.RollBack(t.Context(), e, "shop", 1, "eve", "three was wrong")
	if err != nil || r.Version != 4 || !bytes.Equal(r.Text, text("shop", 1)) || r.Author != "eve" {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := fmt.Sprint(differences); got != "[shop user: 3/minute -> 1/minute]" {
		t.Errorf("the difference is %s", got)
	}
	e.save("shop", 4, nil)
	r, _, err = rules.RollBack(t.Context(), e, "shop", 2, "eve", "it is wanted")
	if err != nil || r.Version != 6 || len(e.load()) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	r, _, err = rules.RollBack(t.Context(), e, "shop", 5, "eve", "it was deleted")
	if err != nil || r.Version != 7 || r.Text != nil || len(e.load()) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, version := range []int64{-1, 0, 8, 1 << 60} {
		if r, _, err := rules.RollBack(t.Context(), e, "shop", version, "eve", "no"); err == nil {
			t.Errorf("back to version %d: %+v", version, r)
		}
	}
}

// bounds: what is too large or missing is an error that names it, and nothing is written.
func bounds(t *testing.T, s State) {
	e := editor{t, s.Open()}
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		name  string
		alter func(*rules.Change)
	}{
		{"Domain", func(c *rules.Change) { c.Domain = "" }},
		{"Domain", func(c *rules.Change) { c.Domain = long(book.MaxDomain + 1) }},
		{"Domain", func(c *rules.Change) { c.Domain = "\xff" }},
		{"Domain", func(c *rules.Change) { c.Domain = "a\x00b" }},
		{"Author", func(c *rules.Change) { c.Author = "" }},
		{"Author", func(c *rules.Change) { c.Author = long(book.MaxAuthor + 1) }},
		{"Author", func(c *rules.Change) { c.Author = "\xc3" }},
		{"Reason", func(c *rules.Change) { c.Reason = "" }},
		{"Reason", func(c *rules.Change) { c.Reason = long(book.MaxReason + 1) }},
		{"Reason", func(c *rules.Change) { c.Reason = "\xc3" }},
		{"Base", func(c *rules.Change) { c.Base = -1 }},
		{"Base", func(c *rules.Change) { c.Text = nil }},
		{"Text", func(c *rules.Change) { c.Text = []byte{} }},
		{"Text", func(c *rules.Change) { c.Text = make([]byte, rules.MaxText+1) }},
		{"Text", func(c *rules.Change) { c.Text = []byte("domain: \xff") }},
	} {
		x := change("shop", 0, text("shop", 1))
		c.alter(&x)
		if _, err := e.Save(t.Context(), x); err == nil || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, c := range []struct {
		domain string
		before int64
		n      int
	}{{"", 0, 1}, {"\xff", 0, 1}, {"shop", -1, 1}, {"shop", 0, 0}, {"shop", 0, 1001}} {
		if _, err := e.History(t.Context(), c.domain, c.before, c.n); err == nil {
			t.Errorf("history of %+v", c)
		}
	}
	if docs := e.load(); len(docs) != 0 {
		t.Errorf("%v", docs)
	}
	largest := rules.Change{
		Domain: long(book.MaxDomain), Text: []byte(long(rules.MaxText)),
		Author: long(book.MaxAuthor), Reason: long(book.MaxReason),
	}
	if r, err := e.Save(t.Context(), largest); err != nil || len(r.Text) != rules.MaxText {
		t.Error(err)
	}
}

// hostile: names and texts are data, and none is taken for another one.
func hostile(t *testing.T, s State) {
	e := editor{t, s.Open()}
	names := []string{
		"a", "A", "a ", " a", "á", "a\u0301", "ß", "ss", "\t", "a\nb", "{a}", "}{", ":of:a", "a:of:a",
		"#", "+", "-", "1 2 3 +", "*", "%", "_", "\\", `"`, "`", "🙂", "\u2028", "--",
		"'; DROP TABLE ration_rules_revisions; --", `" OR 1=1`, "']; redis.call('FLUSHALL') --",
		"?", "$1", ":x", "%s%n", "../../etc/passwd", "\r\nFLUSHALL\r\n",
	}
	written := func(name string) []byte {
		long := strings.Repeat(name, 1+64<<10/len(name))
		return []byte(long + "\x00\r\n\u2028'\"\\?${}" + name)
	}
	for _, name := range names {
		r, err := e.Save(t.Context(), rules.Change{
			Domain: name, Text: written(name), Author: name, Reason: name + "'\"\\%",
		})
		if err != nil || r.Version != 1 || r.Author != name || r.Reason != name+"'\"\\%" {
			t.Fatalf("%q: version %d, %q, %q, %v", name, r.Version, r.Author, r.Reason, err)
		}
	}
	docs := editor{t, s.Open()}.load()
	for _, name := range names {
		list := e.history(name, 0, 9)
		if !bytes.Equal(docs[name].Text, written(name)) || len(list) != 1 ||
			!bytes.Equal(list[0].Text, written(name)) || list[0].Author != name {
			t.Errorf("%q has come back as another one", name)
		}
	}
	if len(docs) != len(names) {
		t.Errorf("%d domains", len(docs))
	}
}

// wait: a process that waits sees the change of another one.
func wait(t *testing.T, s State) {
	e, reader := editor{t, s.Open()}, s.Open()
	for v := range int64(4) {
		_, tag, err := reader.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- reader.Wait(t.Context(), tag) }()
		e.save("shop", v, text("shop", int(v)+1))
		saved := time.Now()
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("seen after %v", time.Since(saved).Round(time.Millisecond))
		case <-time.After(patience):
			t.Fatal("the change was not seen")
		}
		// A tag from before another change is out of date at once.
		if err := reader.Wait(t.Context(), tag); err != nil {
			t.Fatal(err)
		}
	}
}

// waitEnds with its context, and not before.
func waitEnds(t *testing.T, s State) {
	e := editor{t, s.Open()}
	e.save("shop", 0, text("shop", 1))
	_, tag, err := e.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), book.Poll*3/2)
	defer cancel()
	if err := e.Wait(ctx, tag); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if err := e.Wait(ctx, tag); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// stateLost: a process that has read rules does not take their loss for a deletion, until each
// domain is saved anew. One that is new knows nothing of them.
func stateLost(t *testing.T, s State) {
	e, reader := editor{t, s.Open()}, editor{t, s.Open()}
	e.save("shop", 0, text("shop", 1))
	e.save("shop", 1, text("shop", 2))
	e.save("bank", 0, text("bank", 1))
	e.save("gone", 0, text("gone", 1))
	e.save("gone", 1, nil)
	_, tag, err := reader.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Wipe()
	if err := reader.Wait(t.Context(), tag); err != nil {
		t.Errorf("the loss was not seen: %v", err)
	}
	lost := func(domain string) {
		t.Helper()
		for range 2 {
			docs, _, err := reader.Load(t.Context())
			if err == nil || !strings.Contains(err.Error(), domain) {
				t.Fatalf("lost state is %v, %v", docs, err)
			}
		}
	}
	lost("domain")
	if docs := (editor{t, s.Open()}).load(); len(docs) != 0 {
		t.Errorf("a new process has %v", docs)
	}
	e.save("shop", 0, text("shop", 3))
	lost("bank")
	e.save("bank", 0, text("bank", 2))
	e.save("bank", 1, nil)
	if docs := reader.load(); len(docs) != 1 || docs["shop"].Version != 1 {
		t.Errorf("saved anew: %v", docs)
	}
}

// limiterKeepsRules: a Limiter goes on with the last good rules when the state is lost, says so,
// and goes by those that are saved anew.
func limiterKeepsRules(t *testing.T, s State) {
	e := editor{t, s.Open()}
	e.save("shop", 0, text("shop", 2))
	l, err := rules.New(hybrid.NewMemory(), s.Open(), rules.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(context.WithoutCancel(t.Context()))
	limit := func() string {
		d, _ := l.Rules().Domain("shop")
		result, err := l.Take(t.Context(), "shop", rules.Of("user", "42"))
		if err != nil || result.Each[0].State != rules.Limited {
			t.Fatalf("%+v, %v", result, err)
		}
		return d.Rules[0].Text
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.Wipe()
	until(ctx, t, "the loss is noticed", func() bool { return l.Stats().Source.Err != nil })
	if got := limit(); got != "2/minute" {
		t.Errorf("after the loss the limit is %s", got)
	}
	e.save("shop", 0, text("shop", 3))
	until(ctx, t, "it is well again", func() bool { return l.Stats().Source.Err == nil })
	if got := limit(); got != "3/minute" {
		t.Errorf("after it was saved anew the limit is %s", got)
	}
}

// tooManyDomains: no more than what Parse reads.
func tooManyDomains(t *testing.T, s State) {
	if testing.Short() {
		t.Skip("a thousand changes are left out with -short")
	}
	e := editor{t, s.Open()}
	for i := range rules.MaxDomains {
		e.save(fmt.Sprint("domain", i), 0, []byte("x"))
	}
	_, err := e.Save(t.Context(), change("one more", 0, []byte("x")))
	if err == nil || errors.Is(err, rules.ErrConflict) {
		t.Errorf("%v", err)
	}
	e.save("domain7", 1, []byte("y"))
}
