package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/api"
)

// one is a body with a descriptor of one entry.
func one(domain, key, value string) string {
	return fmt.Sprintf(`{"domain": %q, "descriptors": [{"entries": [{"key": %q, "value": %q}]}]}`,
		domain, key, value)
}

// two is a body with two descriptors, the second one with hits.
func two(user, address string, hits int) string {
	return fmt.Sprintf(`{"domain": "shop", "descriptors": [
		{"entries": [{"key": "user", "value": %q}]},
		{"entries": [{"key": "address", "value": %q}], "hits": %d}]}`, user, address, hits)
}

// TestTake: a limit admits what it has. A denial is an answer with the status 200, that says when
// to come again.
func TestTake(t *testing.T) {
	s := newService(t)
	for left := 2; left >= 0; left-- {
		got := s.do(t, "eve", "POST", "/v1/take", one("shop", "user", "ann"), http.StatusOK)
		if got.at("allowed") != "true" || got.at("denied") != "<nil>" ||
			got.at("each", 0, "remaining") != fmt.Sprint(left) ||
			got.at("each", 0, "state") != "limited" || got.at("each", 0, "rule") != "user" ||
			got.at("each", 0, "name") != "users" || got.at("each", 0, "retry_after") != "0" ||
			got.at("each", 0, "limit", "kind") != "quota" ||
			got.at("each", 0, "limit", "burst") != "3" ||
			got.at("each", 0, "limit", "window") != "3.1536e+07" {
			t.Fatalf("%d left: %s", left, got.Body)
		}
	}
	got := s.do(t, "eve", "POST", "/v1/take", one("shop", "user", "ann"), http.StatusOK)
	if got.at("allowed") != "false" || got.at("denied") != "0" ||
		got.at("each", 0, "allowed") != "false" || got.at("each", 0, "retry_after") == "0" {
		t.Fatal(got.Body)
	}
}

// TestTakeSeveral: all or none.
func TestTakeSeveral(t *testing.T) {
	s := newService(t)
	for i, want := range []struct {
		hits    int
		allowed string
		denied  string
	}{
		{2, "true", "<nil>"},
		{1, "false", "1"}, // the address has had both
	} {
		got := s.do(t, "eve", "POST", "/v1/take", two("ann", "::1", want.hits), http.StatusOK)
		if got.at("allowed") != want.allowed || got.at("denied") != want.denied {
			t.Errorf("request %d: %s", i, got.Body)
		}
	}
	got := s.do(t, "eve", "POST", "/v1/take", two("ann", "::2", 1), http.StatusOK)
	if got.at("allowed") != "true" { // what was denied cost the user nothing
		t.Error(got.Body)
	}
}

// TestNeverWorthRepeating: what is more than a limit ever admits has no time to come again.
func TestNeverWorthRepeating(t *testing.T) {
	s := newService(t)
	got := s.do(t, "eve", "POST", "/v1/take", two("ann", "::1", 3), http.StatusOK)
	if got.at("allowed") != "false" || got.at("denied") != "1" ||
		!strings.Contains(got.Body.String(), `"retry_after":null`) {
		t.Error(got.Body)
	}
}

// TestStates: each state of a rule has its name, and only one that is limited has a decision.
func TestStates(t *testing.T) {
	s := newService(t)
	for _, want := range []struct{ key, value, state, rule string }{
		{"nothing", "x", "not configured", ""},
		{"user", "root", "unlimited", "user=root"},
		{"trial", "x", "shadow", "trial"},
		{"user", "x", "limited", "user"},
	} {
		got := s.do(t, "eve", "POST", "/v1/take", one("shop", want.key, want.value), http.StatusOK)
		if got.at("each", 0, "state") != want.state || got.at("each", 0, "rule") != want.rule ||
			(got.at("each", 0, "remaining") == "<nil>") == (want.state == "limited") {
			t.Errorf("%v: %s", want, got.Body)
		}
	}
	got := s.do(t, "eve", "POST", "/v1/take", `{"domain": "shop", "descriptors": [
		{"entries": [{"key": "user", "value": "y"}]},
		{"entries": [{"key": "tenant", "value": "y"}]}]}`, http.StatusOK)
	if got.at("each", 0, "state") != "replaced" || got.at("each", 1, "state") != "limited" {
		t.Error(got.Body)
	}
}

// TestExplain: it tells what a request would be limited by.
func TestExplain(t *testing.T) {
	s := newService(t)
	const target = "/v1/explain?domain=shop&descriptor=user%3Dann&descriptor=nothing"
	got := s.do(t, "eve", "GET", target, "", http.StatusOK)
	if got.at("each", 0, "rule") != "user" || got.at("each", 0, "state") != "limited" ||
		got.at("each", 0, "limit", "text") != "3/8760h0m0s" || got.at("each", 0, "key") == "<nil>" ||
		got.at("each", 1, "state") != "not configured" || got.at("each", 0, "class") != "<nil>" {
		t.Error(got.Body)
	}
	const models = "/v1/explain?domain=shop&descriptor=model%3Dcritical&descriptor=model%3Dx"
	got = s.do(t, "eve", "GET", models, "", http.StatusOK)
	if got.at("each", 0, "class") != "critical" || got.at("each", 1, "class") != "batch" ||
		got.at("each", 0, "key") != got.at("each", 1, "key") {
		t.Error(got.Body)
	}
	for _, wrong := range []struct{ query, field string }{
		{"domain=shop", "descriptors"},
		{"domain=shop&descriptor=%22", "descriptor[0]"},
		{"domain=shop&domain=shop&descriptor=user", "domain"},
	} {
		got := s.do(t, "eve", "GET", "/v1/explain?"+wrong.query, "", http.StatusBadRequest)
		if got.at("field") != wrong.field {
			t.Errorf("%s: %s", wrong.query, got.Body)
		}
	}
}

// TestRights: a domain that the caller may not see is as one that does not exist, for each verb.
func TestRights(t *testing.T) {
	s := newService(t, shop, "domain: cafe\n")
	within(t, "the rules", func() bool { _, ok := s.limiter.Rules().Domain("cafe"); return ok })
	requests := []struct{ method, target, body string }{
		{"POST", "/v1/take", one("D", "user", "x")},
		{"POST", "/v1/peek", one("D", "user", "x")},
		{"POST", "/v1/reserve", one("D", "user", "x")},
		{"GET", "/v1/explain?domain=D&descriptor=user", ""},
		{"GET", "/v1/domains/D", ""},
		{"GET", "/v1/domains/D/history", ""},
		{"PUT", "/v1/domains/D?reason=r", "domain: D\n"},
		{"DELETE", "/v1/domains/D?reason=r", ""},
		{"POST", "/v1/domains/D/rollback", `{"version": 1, "reason": "r"}`},
		{"PUT", "/v1/domains/D/rules?path=user&reason=r", "rate_limit: {}\n"},
		{"DELETE", "/v1/domains/D/rules?path=user&reason=r", ""},
	}
	for _, r := range requests {
		t.Run(r.method+r.target, func(t *testing.T) {
			in := func(domain string) (string, string) {
				return strings.ReplaceAll(r.target, "D", domain),
					strings.ReplaceAll(r.body, `"D"`, `"`+domain+`"`)
			}
			target, body := in("shop")
			hidden := s.do(t, "bob", r.method, target, body, http.StatusNotFound, "If-Match", `"1"`)
			target, body = in("nowhere")
			missing := s.do(t, "bob", r.method, target, body, http.StatusNotFound, "If-Match", `"1"`)
			if hidden.Body.String() != missing.Body.String() {
				t.Errorf("%s differs from %s", hidden.Body, missing.Body)
			}
			s.do(t, "", r.method, target, body, http.StatusUnauthorized)
			target, body = in("shop")
			s.do(t, "", r.method, target, body, http.StatusUnauthorized)
			if strings.HasPrefix(r.target, "/v1/domains") && r.method != "GET" {
				s.do(t, "eve", r.method, target, body, http.StatusForbidden, "If-Match", `"1"`)
			}
		})
	}
	got := s.do(t, "eve", "GET", "/v1/domains", "", http.StatusOK)
	if got.at("domains") != "[map[domain:shop version:1]]" || got.at("read_only") != "false" {
		t.Error(got.Body)
	}
	revisions, err := s.book.History(t.Context(), "shop", 0, 10)
	if err != nil || len(revisions) != 1 {
		t.Errorf("%d revisions, %v", len(revisions), err)
	}
}

// TestTakesOnly: a token for taking only asks for tokens of limits, whatever its user may do
// beside.
func TestTakesOnly(t *testing.T) {
	s := newService(t)
	body := one("shop", "user", "x")
	s.do(t, "tim", "POST", "/v1/take", body, http.StatusOK)
	s.do(t, "tim", "POST", "/v1/peek", body, http.StatusOK)
	for _, end := range []struct{ method, below, body string }{
		{"POST", "/settle", `{"used": [0]}`}, {"DELETE", "", ""},
	} {
		id := s.do(t, "tim", "POST", "/v1/reserve", body, http.StatusOK).at("reservation_id")
		s.do(t, "tim", "POST", "/v1/reservations/"+id+"/extend", `{"ttl": 1}`, http.StatusOK)
		s.do(t, "tim", end.method, "/v1/reservations/"+id+end.below, end.body, http.StatusNoContent)
	}
	refused := 0
	for _, r := range api.Routes() {
		if strings.HasPrefix(r.Path, "/v1/domains") || r.Path == "/v1/explain" {
			target := strings.ReplaceAll(r.Path, "{domain}", "shop") + "?dry-run=true"
			got := s.do(t, "tim", r.Method, target, "", http.StatusForbidden)
			if got.detail() != "the token is for taking only" {
				t.Errorf("%s %s: %s", r.Method, r.Path, got.Body)
			}
			refused++
		}
	}
	if all := len(api.Routes()); refused != all-6 {
		t.Errorf("%d of %d routes refuse it: it has others than those above", refused, all)
	}
}

// TestLostAccounts: without accounts nobody may do anything, and the reason stays inside.
func TestLostAccounts(t *testing.T) {
	s := newService(t)
	got := s.do(t, "broken", "GET", "/v1/domains", "", http.StatusServiceUnavailable)
	if got.Header().Get("Retry-After") != "1" || strings.Contains(got.Body.String(), "secret") {
		t.Errorf("%v %s", got.Header(), got.Body)
	}
	if !errors.Is(fmt.Errorf("x: %w", api.ErrCaller), api.ErrCaller) {
		t.Error("ErrCaller cannot be wrapped")
	}
}

// TestLimitOfRequest: a limit that a request brings is what the same one is in a document.
func TestLimitOfRequest(t *testing.T) {
	for _, unit := range []string{"second", "minute", "hour", "day", "week", "month", "year"} {
		for text, fields := range map[string]string{
			"5/" + unit:                      "",
			"5/" + unit + " by the calendar": ", kind: quota",
			"5 in any " + unit:               ", kind: sliding",
			"0/" + unit:                      "",
			"5/" + unit + " burst 9":         ", burst: 9",
		} {
			n := text[:1]
			set, err := rules.Parse(rules.Document{Text: []byte("domain: x\ndescriptors:\n- {key: k, " +
				"rate_limit: {unit: " + unit + ", requests_per_unit: " + n + fields + "}}\n")})
			got, gotErr := api.ParseLimit(text)
			if (err == nil) != (gotErr == nil) {
				t.Errorf("%s: %v, and in a document %v", text, gotErr, err)
				continue
			}
			if err != nil {
				continue
			}
			d, _ := set.Domain("x")
			if r := d.Rules[0]; got != r.Limit {
				t.Errorf("%s is %v, and in a document %v", text, got, r.Limit)
			} else if again, err := api.ParseLimit(r.Text); err != nil || again != got {
				t.Errorf("%s is written as %s, which is %v, %v", text, r.Text, again, err)
			}
		}
	}
	for _, text := range []string{
		"", "5", "/minute", "5/", "-1/minute", "5.5/minute", "05/minute", "1e3/minute", "5/fortnight",
		"5/minute burst", "5/minute burst 0", "5/minute burst x", "5 in all minute", "unlimited",
		"5/minute, burst: 3", "99999999999999999999/minute", "5/minute by calendar", "5/\"minute",
	} {
		if limit, err := api.ParseLimit(text); err == nil {
			t.Errorf("%q is %v", text, limit)
		}
	}
}

// TestPeek: it tells what take would say, and takes nothing.
func TestPeek(t *testing.T) {
	s := newService(t)
	for range 5 {
		got := s.do(t, "eve", "POST", "/v1/peek", two("ann", "::1", 2), http.StatusOK)
		if got.at("allowed") != "true" || got.at("each", 1, "remaining") != "2" {
			t.Fatal(got.Body)
		}
	}
	s.do(t, "eve", "POST", "/v1/take", two("ann", "::1", 2), http.StatusOK)
	got := s.do(t, "eve", "POST", "/v1/peek", two("ann", "::1", 2), http.StatusOK)
	if got.at("allowed") != "false" || got.at("denied") != "1" {
		t.Error(got.Body)
	}
}

// TestReserve: what was not used comes back, and all of a job that was not done. Nothing comes
// back of what was used.
func TestReserve(t *testing.T) { synctest.Test(t, testReserve) } // a lease ends in a pause

func testReserve(t *testing.T) {
	s := newService(t)
	body := strings.Replace(one("shop", "tenant", "x"), `"entries"`, `"hits": 60, "entries"`, 1)
	reserve := func() (id string, allowed bool) {
		got := s.do(t, "eve", "POST", "/v1/reserve", body, http.StatusOK)
		return got.at("reservation_id"), got.at("result", "allowed") == "true"
	}
	denied := func() {
		t.Helper()
		if _, allowed := reserve(); allowed {
			t.Fatal("more was reserved than there is")
		}
	}
	admitted := func() (path string) {
		t.Helper()
		id, allowed := reserve()
		for range 100 { // a denial is remembered for 20 ms
			if allowed {
				break
			}
			time.Sleep(time.Millisecond)
			id, allowed = reserve()
		}
		if !allowed {
			t.Fatal("a reservation did not come")
		}
		return "/v1/reservations/" + id
	}
	id := admitted()
	denied()
	s.do(t, "eve", "DELETE", id, "", http.StatusNoContent)
	s.do(t, "eve", "POST", admitted()+"/settle", `{"used": [5]}`, http.StatusNoContent)
	s.do(t, "eve", "POST", admitted()+"/settle", `{"used": [60]}`, http.StatusNoContent)
	denied()
}

// TestTakeByOwnLimit: a limit of the request is in force in place of the rule's, and has a bucket
// of its own.
func TestTakeByOwnLimit(t *testing.T) {
	s := newService(t)
	body := strings.Replace(one("shop", "user", "ann"), `"entries"`,
		`"limit": "2/hour", "entries"`, 1)
	for i := range 3 {
		got := s.do(t, "eve", "POST", "/v1/take", body, http.StatusOK)
		if got.at("allowed") != fmt.Sprint(i < 2) || got.at("each", 0, "limit", "burst") != "2" {
			t.Fatal(got.Body)
		}
	}
	got := s.do(t, "eve", "POST", "/v1/take", one("shop", "user", "ann"), http.StatusOK)
	if got.at("each", 0, "remaining") != "2" {
		t.Error(got.Body)
	}
}

// TestClasses: peek tells what a class may spend, and a reservation that cost more than its estimate
// is a debt of its class.
func TestClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		ask := func(verb, class string) answer {
			return s.do(t, "eve", "POST", "/v1/"+verb, one("shop", "model", class), http.StatusOK)
		}
		for i := range 2000 { // batch wants five times the limit
			for class, every := range map[string]int{"critical": 20, "batch": 1} {
				if i%every == 0 {
					_, err := s.limiter.Take(t.Context(), "shop", rules.Of("model", class))
					must(t, err)
				}
			}
			time.Sleep(2 * time.Millisecond)
		}
		var id string
		for range 1000 {
			got := ask("reserve", "batch")
			if id = got.at("reservation_id"); got.at("result", "allowed") == "true" {
				break
			}
			time.Sleep(2 * time.Millisecond)
		}
		s.do(t, "eve", "POST", "/v1/reservations/"+id+"/settle", `{"used": [40]}`, http.StatusNoContent)
		if got := ask("peek", "batch"); got.at("allowed") != "false" || got.at("each", 0, "remaining") != "0" {
			t.Errorf("batch, which owes: %s", got.Body)
		}
		if got := ask("peek", "critical"); got.at("allowed") != "true" || got.at("each", 0, "remaining") == "0" {
			t.Errorf("critical: %s", got.Body)
		}
		if got := ask("take", "critical"); got.at("allowed") != "true" {
			t.Errorf("critical: %s", got.Body)
		}
	})
}
