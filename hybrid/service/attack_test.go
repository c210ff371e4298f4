package main

import (
	"context"
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/servicetest"
	"github.com/seed13b07268/ration/remote/redistest"
)

// shop starts the program with an admin, and with the domain shop of 10 tokens an hour.
func shop(t *testing.T, args ...string) *whole {
	t.Helper()
	w := startWhole(t, args...)
	w.login("admin", w.password())
	w.api(http.StatusOK, "PUT", "v1/domains/shop?reason=opening", shopOf(10), "If-None-Match", "*")
	w.soon("the rules are in force", func() bool { return w.limit() == "10/hour" })
	return w
}

// TestViewer: a viewer's token takes, and changes nothing; domains of others are not there.
func TestViewer(t *testing.T) {
	w := shop(t, "-data", t.TempDir())
	const password = "correct horse battery"
	w.form(http.StatusSeeOther, "users", "name", "vic", "password", password)
	w.form(http.StatusOK, "users/vic", "do", "right", "domain", "shop", "role", "viewer")
	var err error
	if w.visitor, err = servicetest.New(w.http); err != nil {
		t.Fatal(err)
	}
	w.login("vic", password)
	if !w.take(1) {
		t.Error("a viewer may not take")
	}
	w.api(http.StatusForbidden, "PUT", "v1/domains/shop?reason=more", shopOf(99), "If-Match", `"1"`)
	w.api(http.StatusForbidden, "DELETE", "v1/domains/shop?reason=less", "", "If-Match", `"1"`)
	w.api(http.StatusNotFound, "GET", "v1/domains/example", "")
	w.page(http.StatusOK, "domains/shop", "10/hour")
	w.page(http.StatusOK, "live/shop")
	w.page(http.StatusNotFound, "live/example")
	const limit = "/rule?path=user&number=5&unit=hour"
	w.page(http.StatusOK, "domains/shop"+limit, "What if")
	w.page(http.StatusNotFound, "domains/example"+limit)
	w.page(http.StatusOK, "domains/shop/rule?path=user&unit=hour&number="+strings.Repeat("9", 40_000),
		"and not digits")
	w.page(http.StatusRequestHeaderFieldsTooLarge, "domains/shop/rule?path=user&number="+
		strings.Repeat("9", 2*maxHeader))
	w.form(http.StatusForbidden, "domains/shop/edit", "base", "1", "text", shopOf(99), "reason", "x")
	w.form(http.StatusForbidden, "domains/shop/edit", "base", "1", "text", shopOf(99), "do", "whatif")
	w.form(http.StatusForbidden, "users", "name", "eve", "password", password)
	if got := w.limit(); got != "10/hour" {
		t.Errorf("the limit is %s", got)
	}
	w.end(t)
}

// TestTaker: a token for taking only takes, and neither sees nor changes rules, though it is an
// admin's.
func TestTaker(t *testing.T) {
	w := shop(t, "-data", t.TempDir())
	if err := w.visitor.Token(t.Context(), "web", "only", "take"); err != nil {
		t.Fatal(err)
	}
	if !w.take(1) {
		t.Error("it may not take")
	}
	w.api(http.StatusForbidden, "GET", "v1/domains", "")
	w.api(http.StatusForbidden, "GET", "v1/domains/shop", "")
	w.api(http.StatusForbidden, "PUT", "v1/domains/shop?reason=more", shopOf(99), "If-Match", `"1"`)
	for _, path := range []string{"account", "users/admin"} {
		if text := w.page(http.StatusOK, path).Text; strings.Count(text, "(for taking only)") != 1 {
			t.Errorf("%s does not tell which token is for taking only:\n%s", path, text)
		}
	}
	w.end(t)
}

// TestForms: no form takes the last login away, makes a token that has ended, or writes what turns
// the text around it; and whoever may not make a domain learns of no version by trying.
func TestForms(t *testing.T) {
	w := shop(t, "-data", t.TempDir())
	admin := w.visitor
	w.form(http.StatusUnprocessableEntity, "users/admin", "do", "password", "password", "")
	w.form(http.StatusUnprocessableEntity, "users/admin", "do", "nopassword")
	w.form(http.StatusUnprocessableEntity, "users/admin", "do", "delete")
	w.form(http.StatusConflict, "users/admin", "do", "nopassword", "sure", "yes")
	w.form(http.StatusConflict, "users/admin", "do", "delete", "sure", "yes")
	w.form(http.StatusBadRequest, "account/tokens", "title", "odd", "life", "-1")
	w.form(http.StatusUnprocessableEntity, "account/tokens", "title", "a\u202eb")
	w.form(http.StatusUnprocessableEntity, "domains/shop/edit", "base", "1", "text", shopOf(99),
		"reason", "a\u202eb")
	w.api(http.StatusBadRequest, "PUT", "v1/domains/shop?reason=a%E2%80%AEb", shopOf(99),
		"If-Match", `"1"`)
	w.form(http.StatusUnprocessableEntity, "users", "name", "a\u202eb",
		"password", "correct horse battery")
	w.form(http.StatusOK, "users/admin", "do", "right", "domain", "a\u202eb", "role", "viewer")
	if text := w.page(http.StatusOK, "users", `a\u202eb`).Text; strings.Contains(text, "\u202e") {
		t.Errorf("a right turns the text around it: %s", text)
	}
	w.page(http.StatusOK, "audit?q=token+admin", "token made")
	const password = "correct horse battery"
	w.form(http.StatusSeeOther, "users", "name", "edd", "password", password)
	w.form(http.StatusOK, "users/edd", "do", "right", "domain", "shop", "role", "editor")
	var err error
	if w.visitor, err = servicetest.New(w.http); err != nil {
		t.Fatal(err)
	}
	w.login("edd", password)
	w.api(http.StatusForbidden, "PUT", "v1/domains/shop?reason=x", shopOf(9), "If-None-Match", "*")
	w.api(http.StatusForbidden, "DELETE", "v1/domains/shop?reason=x", "", "If-Match", `"7"`)
	w.page(http.StatusForbidden, "audit?q=token")
	w.form(http.StatusForbidden, "users/admin", "do", "nopassword", "sure", "yes")
	w.form(http.StatusOK, "domains/shop/edit", "base", "1", "text", shopOf(99), "do", "try",
		"descriptors", "user=ann\n<b>=x\n")
	w.form(http.StatusNotFound, "domains/example/edit", "base", "1", "text", shopOf(99), "do", "try")
	for _, do := range []string{"show", "set", "remove", "whatif"} {
		for _, wrong := range []string{"\u202e}", "'", "5, burst: 9", strings.Repeat("9", 1000), "-0"} {
			w.form(http.StatusOK, "domains/shop/edit", "base", "1", "text", shopOf(99), "do", do,
				"path", "user"+wrong, "of", wrong, "number", wrong, "unit", wrong, "kind", wrong,
				"burst", wrong, "offset", wrong)
		}
		w.form(http.StatusRequestEntityTooLarge, "domains/shop/edit", "base", "1", "do", do,
			"text", strings.Repeat("#", 3*rules.MaxText+1<<17))
		w.form(http.StatusNotFound, "domains/example/edit", "text", shopOf(99), "do", do)
	}
	w.page(http.StatusOK, "domains/shop/rule?path=user", "10/hour")
	w.page(http.StatusNotFound, "domains/example/rule?path=address")
	w.page(http.StatusNotFound, "live/example/rule?path=address")
	w.visitor = admin
	w.page(http.StatusOK, "users/edd", `data-label="Last used"><time`)
	w.end(t)
}

// TestReadOnly: rules from files are seen everywhere, and changed nowhere but in the files.
func TestReadOnly(t *testing.T) {
	files := t.TempDir()
	put := func(n int) {
		if err := os.WriteFile(filepath.Join(files, "shop.yaml"), []byte(shopOf(n)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(10)
	w := startWhole(t, "-data", t.TempDir(), "-rules", "files:"+files)
	w.login("admin", w.password())
	w.page(http.StatusOK, "", "shop")
	w.page(http.StatusOK, "domains/shop", "10/hour")
	w.page(http.StatusOK, "live/shop")
	w.api(http.StatusConflict, "PUT", "v1/domains/shop?reason=more", shopOf(99), "If-Match", `"1"`)
	for _, path := range []string{"edit", "history", "delete"} {
		if a := w.visit("domains/shop/" + path); a.Status < 400 || a.Status >= 500 {
			t.Errorf("%s: %d", path, a.Status)
		}
	}
	a, err := w.visitor.Post(t.Context(), "domains/shop/edit", "base", "1", "text", shopOf(99),
		"reason", "more")
	if err != nil || a.Status < 400 || a.Status >= 500 {
		t.Errorf("edit: %d %v", a.Status, err)
	}
	if !w.take(1) {
		t.Error("the rules are not in force")
	}
	put(20)
	w.soon("the file is in force", func() bool { return w.limit() == "20/hour" })
	w.end(t)
}

// visit asks for a page.
func (w *whole) visit(path string) servicetest.Answer {
	w.Helper()
	a, err := w.visitor.Get(w.Context(), path)
	if err != nil {
		w.Fatal(err)
	}
	return a
}

// TestDatabaseAway: while the database refuses, nothing is saved, what was typed is kept, and
// limits go on. It heals by itself.
func TestDatabaseAway(t *testing.T) {
	data := t.TempDir()
	w := shop(t, "-data", data)
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(data, "ration.db")))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rename := func(from, to string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), "PRAGMA busy_timeout(5000)")
		if err == nil {
			_, err = db.ExecContext(t.Context(), "ALTER TABLE "+from+" RENAME TO "+to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rename("ration_rules_revisions", "gone")
	a := w.form(http.StatusServiceUnavailable, "domains/shop/edit", "base", "1",
		"text", shopOf(77), "reason", "more")
	if !strings.Contains(a.Text, "requests_per_unit: 77") ||
		strings.Contains(a.Text, "no such table") {
		t.Errorf("the page has lost what was typed, or tells too much:\n%s", a.Text)
	}
	w.api(http.StatusServiceUnavailable, "PUT", "v1/domains/shop?reason=more",
		shopOf(77), "If-Match", `"1"`)
	if _, grpc := ann(4); !ask(t, w.dial(t), grpc) || !w.take(4) {
		t.Error("limits do not go on")
	}
	w.page(http.StatusOK, "domains/shop", "10/hour")
	w.page(http.StatusOK, "live/shop")
	if code, _ := w.get(t, "readyz"); code != http.StatusOK {
		t.Errorf("readyz: %d", code)
	}
	rename("gone", "ration_rules_revisions")
	w.soon("a save succeeds again", func() bool {
		a, err := w.visitor.API(t.Context(), "PUT", "v1/domains/shop?reason=more", shopOf(77),
			"If-Match", `"1"`)
		return err == nil && a.Status == http.StatusOK
	})
	w.soon("it is in force", func() bool { return w.limit() == "77/hour" })
	w.end(t)
}

// TestRedisAway: a service starts while Redis is away, by its outage policy, and has the limits of
// all once Redis is there. So it does later.
func TestRedisAway(t *testing.T) {
	redis := redistest.Start(t)
	args := []string{"-data", t.TempDir(), "-redis", "redis://" + redis.Addr, "-outage", "deny",
		"-timeout", "250ms"}
	before := shop(t, args...)
	before.end(t)
	redis.Kill()
	w := startWhole(t, args...)
	w.visitor = before.visitor.At(w.http)
	denied := func() bool {
		body, _ := ann(1)
		a, err := w.visitor.API(t.Context(), "POST", "v1/take", body)
		return err == nil && a.Status == http.StatusOK &&
			strings.Contains(a.Text, `"source":"outage"`) && strings.Contains(a.Text, `"allowed":false`)
	}
	allowed := func() bool {
		body, _ := ann(1)
		a, err := w.visitor.API(t.Context(), "POST", "v1/take", body)
		return err == nil && strings.Contains(a.Text, `"allowed":true`)
	}
	w.soon("the outage policy denies", denied)
	w.looks("The store ")
	w.page(http.StatusOK, "domains/shop")
	w.page(http.StatusOK, "live/shop")
	redis.Restart()
	w.soon("the limits are Redis'", allowed)
	redis.Kill()
	w.page(http.StatusOK, "live/shop")
	redis.Restart()
	w.soon("the limits are Redis' again", allowed)
	w.end(t)
}

// looks waits until the list of domains has a text. What it tells is up to 2 s old, and 12 s where
// it tells of silence.
func (w *whole) looks(text string) {
	w.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		if strings.Contains(w.visit("").Text, text) {
			return
		}
		<-tick.C
	}
	w.Fatalf("the list of domains does not say %q: %s", text, w.visit("").Text)
}

// TestStartsAlone: a service that starts while Redis is away admits its part, if it has been told
// how many there are.
func TestStartsAlone(t *testing.T) {
	redis := redistest.Start(t)
	args := []string{"-data", t.TempDir(), "-redis", "redis://" + redis.Addr, "-timeout", "250ms"}
	start(t, args...).end(t) // the example is there
	redis.Kill()
	const request = `{"domain": "example", "descriptors": [{"entries": [
		{"key": "address", "value": "192.0.2.1"}]}]}` // 10 a second
	for processes, want := range map[string]bool{"2": true, "0": false} {
		r := start(t, append(args, "-processes", processes)...)
		client := pb.NewRateLimitServiceClient(r.dial(t))
		var in pb.RateLimitRequest
		if err := protojson.Unmarshal([]byte(request), &in); err != nil {
			t.Fatal(err)
		}
		admitted := false
		tick := time.NewTicker(10 * time.Millisecond)
		for looks := 150; !admitted && looks > 0; looks-- { // as many as soon has, and for its reason
			out, err := client.ShouldRateLimit(t.Context(), &in) // the first may fail
			admitted = err == nil && out.GetOverallCode() == pb.RateLimitResponse_OK
			<-tick.C
		}
		tick.Stop()
		if admitted != want {
			t.Errorf("with -processes %s it admits: %v", processes, admitted)
		}
		r.end(t)
	}
}

// TestTwoAtOnce: of services that begin at once with an empty database one has the first password,
// which is good for all.
func TestTwoAtOnce(t *testing.T) {
	data := t.TempDir()
	var all [3]*whole
	var starting sync.WaitGroup
	for i := range all {
		starting.Go(func() { all[i] = startWhole(t, "-data", data) })
	}
	starting.Wait()
	var passwords []string
	for _, w := range all {
		if w == nil {
			t.Fatal("one has not started")
		}
		if p := w.password(); p != "" {
			passwords = append(passwords, p)
		}
	}
	if len(passwords) != 1 {
		t.Fatalf("%d first passwords", len(passwords))
	}
	for _, w := range all {
		if err := w.visitor.Login(t.Context(), "admin", passwords[0]); err != nil {
			t.Error(err)
		}
		w.end(t)
		w.keeps(passwords[0])
	}
}

// TestEndUnderLoad: a service that is told to end answers what it has begun. Its clients see
// nothing but answers, until they see that it is not there.
func TestEndUnderLoad(t *testing.T) {
	w := shop(t, "-data", t.TempDir())
	_, text := ann(1)
	var in pb.RateLimitRequest
	if err := protojson.Unmarshal([]byte(text), &in); err != nil {
		t.Fatal(err)
	}
	ctx, enough := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	began := make(chan struct{}, 16)
	for range 4 {
		client := pb.NewRateLimitServiceClient(w.dial(t))
		asking.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if _, err := client.ShouldRateLimit(context.Background(), &in); err != nil {
					if status.Code(err) != codes.Unavailable {
						t.Errorf("gRPC: %v", err)
					}
					return
				}
				if n == 100 {
					began <- struct{}{}
				}
			}
		})
	}
	for range 4 {
		<-began
	}
	w.end(t)
	enough()
	asking.Wait()
	if strings.Contains(w.told(), "cut off") || strings.Contains(w.told(), "not handed back") {
		t.Errorf("it has not ended in order:\n%s", w.told())
	}
}
