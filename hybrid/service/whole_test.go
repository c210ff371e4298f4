package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid/service/internal/servicetest"
	"github.com/seed13b07268/ration/remote/redistest"
)

// A whole is the program with all its parts, and a user of it.
type whole struct {
	*running
	*testing.T
	visitor *servicetest.Visitor
}

// startWhole starts the program as main does.
func startWhole(t *testing.T, args ...string) *whole {
	t.Helper()
	r := begin(t, (*service).parts, args...)
	v, err := servicetest.New(r.http)
	if err != nil {
		t.Fatal(err)
	}
	return &whole{r, t, v}
}

// password is what the program has printed before it served, or nothing.
func (w *whole) password() string {
	for _, line := range w.first {
		if _, password, found := strings.Cut(line, "with the password "); found {
			return password
		}
	}
	return ""
}

// login logs in as a user, and makes a token.
func (w *whole) login(name, password string) {
	w.Helper()
	err := w.visitor.Login(w.Context(), name, password)
	if err == nil {
		err = w.visitor.Token(w.Context(), "token of "+name)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// api sends a request of the API, and wants a status.
func (w *whole) api(status int, method, path, body string, header ...string) servicetest.Answer {
	w.Helper()
	a, err := w.visitor.API(w.Context(), method, path, body, header...)
	if err != nil || a.Status != status {
		w.Fatalf("%s %s: %d, not %d: %v %.500s", method, path, a.Status, status, err, a.Text)
	}
	return a
}

// page asks for a page, and wants a status and texts.
func (w *whole) page(status int, path string, texts ...string) servicetest.Answer {
	w.Helper()
	a, err := w.visitor.Get(w.Context(), path)
	if err != nil || a.Status != status {
		w.Fatalf("%s: %d, not %d: %v %.500s", path, a.Status, status, err, a.Text)
	}
	for _, text := range texts {
		if !strings.Contains(a.Text, text) {
			w.Errorf("%s has no %q:\n%s", path, text, a.Text)
		}
	}
	return a
}

// form sends a form of a page, and wants a status.
func (w *whole) form(status int, path string, pairs ...string) servicetest.Answer {
	w.Helper()
	a, err := w.visitor.Post(w.Context(), path, pairs...)
	if err != nil || a.Status != status {
		w.Fatalf("form %s: %d, not %d: %v %.500s", path, a.Status, status, err, a.Text)
	}
	return a
}

// soon looks until what holds, 200 times with 10 ms between them: a change takes less than a
// second. Looks are counted, and not seconds: while the machine stands still, so does the change.
func (w *whole) soon(what string, holds func() bool) {
	w.Helper()
	if !held(holds) {
		w.Fatalf("after 2 s it does not hold that %s", what)
	}
}

// held looks as soon does, and reports whether it holds in the end.
func held(holds func() bool) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 200 {
		if holds() {
			return true
		}
		<-tick.C
	}
	return false
}

// limit is the limit of the user ann in the domain shop, as the API tells it.
func (w *whole) limit() string {
	w.Helper()
	a, err := w.visitor.API(w.Context(), "GET", "v1/explain?domain=shop&descriptor=user=ann", "")
	if err != nil {
		w.Fatal(err)
	}
	var out struct {
		Each []struct{ Limit struct{ Text string } }
	}
	if a.Status != http.StatusOK || json.Unmarshal([]byte(a.Text), &out) != nil ||
		len(out.Each) != 1 {
		return a.Text
	}
	return out.Each[0].Limit.Text
}

// ann is a request for tokens of the user ann, for the API and for gRPC.
func ann(hits int) (api, grpc string) {
	entries := `[{"key": "user", "value": "ann"}]`
	n := strconv.Itoa(hits)
	return `{"domain": "shop", "descriptors": [{"entries": ` + entries + `, "hits": ` + n + `}]}`,
		`{"domain": "shop", "hitsAddend": ` + n + `, "descriptors": [{"entries": ` + entries + `}]}`
}

// take asks the API for tokens of the user ann.
func (w *whole) take(hits int) (allowed bool) {
	w.Helper()
	body, _ := ann(hits)
	var out struct{ Allowed bool }
	a := w.api(http.StatusOK, "POST", "v1/take", body)
	if err := json.Unmarshal([]byte(a.Text), &out); err != nil {
		w.Fatal(err)
	}
	return out.Allowed
}

// shopOf are rules that have so many tokens an hour.
func shopOf(n int) string {
	return "domain: shop\ndescriptors:\n  - key: user # each\n    rate_limit: {unit: hour, " +
		"requests_per_unit: " + strconv.Itoa(n) + ", kind: quota}\n"
}

// saveOnPage saves so many tokens an hour on top of a version.
func (w *whole) saveOnPage(base, n int) {
	w.Helper()
	w.form(http.StatusSeeOther, "domains/shop/edit", "base", strconv.Itoa(base), "text", shopOf(n),
		"reason", "for "+strconv.Itoa(n), "do", "save")
}

// shared uses up 10 tokens by the API and over gRPC: they have one bucket.
func (w *whole) shared() {
	w.Helper()
	conn := w.dial(w.T)
	_, four := ann(4)
	if !w.take(6) || !ask(w.T, conn, four) {
		w.Error("6 by the API and 4 over gRPC are not 10")
	}
	_, one := ann(1)
	if w.take(1) || ask(w.T, conn, one) {
		w.Error("there are more than 10 tokens")
	}
}

// keeps checks that a password is not in the log of a service that has ended, nor twice in what it
// has printed besides.
func (w *whole) keeps(password string) {
	w.Helper()
	if password == "" || strings.Contains(w.told(), password) ||
		strings.Count(strings.Join(w.first, "\n"), password) > 1 {
		w.Errorf("the password %q is in the log, or twice: %q\n%s", password, w.first, w.told())
	}
}

// TestWhole: the program from its first start on: the page, the API and gRPC have the same users,
// rules and buckets, and a restart keeps them.
func TestWhole(t *testing.T) {
	data := t.TempDir()
	w := startWhole(t, "-data", data)
	password := w.password()
	w.login("admin", password)
	w.form(http.StatusSeeOther, "new", "name", "shop", "reason", "opening")
	w.saveOnPage(1, 10)
	w.soon("the rules of the page are in force", func() bool { return w.limit() == "10/hour" })
	w.shared()

	w.saveOnPage(2, 20)
	w.soon("what the page has saved is in force", func() bool { return w.limit() == "20/hour" })
	w.api(http.StatusOK, "PUT", "v1/domains/shop/rules?path=user",
		`{"text": "rate_limit: {unit: hour, requests_per_unit: 30, kind: quota}", "reason": "x"}`,
		"If-Match", `"3"`)
	w.soon("what the API has saved is in force", func() bool { return w.limit() == "30/hour" })
	w.page(http.StatusOK, "domains/shop", "user", "30/hour")
	w.page(http.StatusOK, "live/shop", "user")
	w.page(http.StatusOK, "static/style.css")
	w.end(t)
	w.keeps(password)

	again := startWhole(t, "-data", data)
	if p := again.password(); p != "" {
		t.Errorf("a second start prints the password %s", p)
	}
	again.visitor = w.visitor.At(again.http)
	if got := again.limit(); got != "30/hour" {
		t.Errorf("after a restart the limit is %s", got)
	}
	again.page(http.StatusOK, "domains/shop/history", "opening")
	again.end(t)
	again.keeps(password)
}

// TestWhatIf: what two services have decided is played again as one record, and a service that keeps
// none has no form for that.
func TestWhatIf(t *testing.T) {
	redis := redistest.Start(t)
	args := []string{"-data", t.TempDir(), "-redis", "redis://" + redis.Addr}
	a := shop(t, args...)
	b := startWhole(t, args...)
	none := startWhole(t, append(args, "-what-if", "0")...)
	b.visitor, none.visitor = a.visitor.At(b.http), a.visitor.At(none.http)
	for range 8 {
		a.take(1)
		b.take(1)
	}
	const limit = "domains/shop/rule?path=user&number=12&unit=hour&kind=quota"
	played := func(w *whole) func() bool {
		return func() bool {
			text := w.visit(limit).Text
			return strings.Contains(text, "<b>4</b> of 16 requests") &&
				strings.Contains(text, "12/hour by the calendar</b>; 6 were") &&
				strings.Contains(text, "Requests of 2 services")
		}
	}
	a.soon("b's requests count in a's answers", played(a))
	b.soon("a's requests count in b's answers", played(b))
	none.page(http.StatusOK, "domains/shop/rule?path=user", "10/hour")
	if text := none.visit(limit).Text; strings.Contains(text, "What if") {
		t.Errorf("a service that records nothing has a form for it: %s", text)
	}
	for _, w := range []*whole{none, b, a} {
		w.end(t)
	}
}

// TestResetAdmin: a lost password is replaced; what the one before could do ends.
func TestResetAdmin(t *testing.T) {
	data := t.TempDir()
	w := startWhole(t, "-data", data)
	w.login("admin", w.password())
	api := func(want int) {
		t.Helper()
		a, err := w.visitor.API(t.Context(), "GET", "v1/domains", "")
		if err != nil || a.Status != want {
			t.Errorf("domains: %d %v, not %d", a.Status, err, want)
		}
	}
	api(http.StatusOK)
	var out strings.Builder
	args := []string{"-data", data, "-reset-admin", "true"}
	if err := run(t.Context(), args, func(string) string { return "" }, &out); err != nil {
		t.Fatal(err)
	}
	api(http.StatusUnauthorized)
	w.login("admin", strings.TrimSpace(strings.TrimPrefix(out.String(), "The password of admin is now ")))
	api(http.StatusOK)
}
