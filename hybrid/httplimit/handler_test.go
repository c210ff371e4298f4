package httplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/httplimit"
	"github.com/seed13b07268/ration/hybrid/lists"
)

// TestDenied: what a client is told as its limit admits, and as it denies.
func TestDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told outcomes
		h := newGuard(t, hybrid.NewMemory(), httplimit.Config{
			Limits: httplimit.Limits{
				{Name: `a "b\`, Key: httplimit.Client{}, Limit: hybrid.PerMinute(20).WithBurst(2)},
				{Name: "day", Key: httplimit.Header("User"), Limit: hybrid.Quota(100, hybrid.Day)},
				{Name: "everybody", Limit: hybrid.PerSecond(1000), Hidden: true},
			},
			Observe: told.observe,
		}).Handler(hello)
		type answer struct{ status, limit, policy, retryAfter string }
		ask := func(edit ...func(*http.Request)) answer {
			r := get(h, edit...)
			return answer{
				r.Status, r.Header.Get("RateLimit"), r.Header.Get("RateLimit-Policy"),
				r.Header.Get("Retry-After"),
			}
		}
		const ab, policy = `"a \"b\\"`, `"a \"b\\";q=2;w=6`
		const day = `, "day";q=100;w=86400`
		// The bubble's clock begins at midnight.
		for i, c := range []struct {
			got, want answer
		}{
			{ask(), answer{"200 OK", ab + ";r=1;t=3", policy, ""}},
			{ask(user("x")), answer{
				"200 OK", ab + `;r=0;t=6, "day";r=99;t=86400`, policy + day, "",
			}},
			{ask(), answer{"429 Too Many Requests", ab + ";r=0;t=3", policy, "3"}},
			{ask(user("x")), answer{
				"429 Too Many Requests", ab + `;r=0;t=3, "day";r=99;t=86400`, policy + day, "3",
			}},
			{ask(from("192.0.2.9")), answer{"200 OK", ab + ";r=1;t=3", policy, ""}},
		} {
			if c.got != c.want {
				t.Errorf("%d: %+v, not %+v", i, c.got, c.want)
			}
		}
		r := get(h)
		body := r.Body
		var problem map[string]any
		if err := json.Unmarshal([]byte(body), &problem); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		want := map[string]any{
			"type":              "https://iana.org/assignments/http-problem-types#quota-exceeded",
			"title":             "Request cannot be satisfied as assigned quota has been exceeded",
			"status":            429.0,
			"violated-policies": []any{`a "b\`},
		}
		if !reflect.DeepEqual(problem, want) ||
			r.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%v %s", r.Header, body)
		}
		if all := told.taken(); len(all) != 3 || all[0].Status != 429 || len(all[0].States) != 2 ||
			all[0].States[0].Key != `a "b\:192.0.2.1` || all[0].States[1].Name != "everybody" {
			t.Errorf("Observe was told %+v", all)
		}

		time.Sleep(3 * time.Second) // as Retry-After says
		if r := get(h); r.StatusCode != http.StatusOK {
			t.Errorf("after Retry-After: %s", r.Status)
		}
	})
}

// TestDeniedCostsOthersNothing: a limit that denies leaves the others as they are, and one that
// applies to no request lets all pass.
func TestDeniedCostsOthersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := httplimit.Config{
			Limits: httplimit.Limits{
				{Name: "small", Key: httplimit.Header("User"), Limit: hybrid.PerHour(3)},
				{Name: "large", Key: httplimit.Header("User"), Limit: hybrid.Quota(1000, hybrid.Day)},
			},
			OnError: httplimit.FailClosed,
		}
		limiter := newLimiter(t, hybrid.NewMemory(), config.Limits)
		guard, err := httplimit.New(limiter, config)
		if err != nil {
			t.Fatal(err)
		}
		h := guard.Handler(hello)
		denied := 0
		for range 50 {
			if get(h, user("x")).StatusCode == http.StatusTooManyRequests {
				denied++
			}
			r := get(h)
			if r.StatusCode != http.StatusOK || len(r.Header["Ratelimit"]) > 0 {
				t.Fatalf("without a limit: %v", r)
			}
		}
		time.Sleep(time.Minute)
		if n := left(t, limiter, "large:x"); denied != 47 || n != 997 {
			t.Errorf("%d of 50 denied, %d left", denied, n)
		}
		if n := guard.Denied(); n["small"] != 47 || n["large"] != 0 {
			t.Errorf("Denied is %v", n)
		}
	})
}

// TestOnError: what each error of a Limiter means.
func TestOnError(t *testing.T) {
	unavailable := func(t *testing.T, _ httplimit.Limits) *hybrid.Limiter {
		l, err := hybrid.New(silent{}, hybrid.Config{Limit: hybrid.PerSecond(10)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close(context.Background()) })
		return l
	}
	closed := func(t *testing.T, limits httplimit.Limits) *hybrid.Limiter {
		l := newLimiter(t, hybrid.NewMemory(), limits)
		l.Close(context.Background())
		return l
	}
	foreign := func(limit hybrid.Limit) func(*testing.T, httplimit.Limits) *hybrid.Limiter {
		return func(t *testing.T, _ httplimit.Limits) *hybrid.Limiter {
			l, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
				LimitFor: func(string) hybrid.Limit { return limit },
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close(context.Background()) })
			return l
		}
	}
	good := func(t *testing.T, limits httplimit.Limits) *hybrid.Limiter {
		return newLimiter(t, hybrid.NewMemory(), limits)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for name, c := range map[string]struct {
		limiter      func(*testing.T, httplimit.Limits) *hybrid.Limiter
		cost         int
		ctx          context.Context
		err          error
		open, closed int
		retryAfter   string
	}{
		"unavailable":   {unavailable, 1, nil, hybrid.ErrUnavailable, 200, 503, "1"},
		"closed":        {closed, 1, nil, hybrid.ErrClosed, 200, 503, "1"},
		"invalid limit": {foreign(hybrid.Limit{}), 1, nil, hybrid.ErrInvalidLimit, 200, 503, "1"},
		"slots":         {foreign(hybrid.Slots(5)), 1, nil, hybrid.ErrKind, 200, 503, "1"},
		"exceeds burst": {good, 11, nil, hybrid.ErrExceedsBurst, 429, 429, ""},
		"negative cost": {good, -1, nil, nil, 429, 429, ""},
		"context ended": {good, 1, ended, context.Canceled, 503, 503, "1"},
	} {
		for _, kind := range []string{"one limit", "several limits", "settled later"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var told outcomes
					config := httplimit.Config{Observe: told.observe, Limits: httplimit.Limits{{
						Name: "a", Limit: hybrid.PerSecond(10),
						Cost: func(*http.Request) int { return c.cost },
					}}}
					switch kind {
					case "several limits":
						config.Limits = append(config.Limits, httplimit.Limit{
							Name: "b", Limit: hybrid.PerSecond(100),
						})
					case "settled later":
						config.Limits[0].After = func(*http.Request, httplimit.End) int {
							t.Error("After was called without a reservation")
							return 0
						}
					}
					limiter := c.limiter(t, config.Limits)
					for onError, want := range map[httplimit.OnError]int{
						httplimit.FailOpen: c.open, httplimit.FailClosed: c.closed,
					} {
						config.OnError = onError
						guard, err := httplimit.New(limiter, config)
						if err != nil {
							t.Fatal(err)
						}
						r := get(guard.Handler(hello), func(r *http.Request) {
							if c.ctx != nil {
								*r = *r.WithContext(c.ctx)
							}
						})
						retryAfter := r.Header.Get("Retry-After")
						if r.StatusCode != want || want != 200 && retryAfter != c.retryAfter {
							t.Errorf("%d: %s, Retry-After %q", onError, r.Status, retryAfter)
						}
						all := told.taken()
						if len(all) != 1 || all[0].Err == nil ||
							c.err != nil && !errors.Is(all[0].Err, c.err) {
							t.Errorf("Observe was told %+v", all)
						}
						if want == 429 && (len(all[0].Denied) != 1 || all[0].Denied[0] != "a") {
							t.Errorf("%v deny", all[0].Denied)
						}
					}
				})
			})
		}
	}
}

// TestShadow: a limit on trial denies nothing and takes nothing of the others. It is counted and
// told, and so are its errors.
func TestShadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told outcomes
		guard := newGuard(t, hybrid.NewMemory(), httplimit.Config{
			Limits: httplimit.Limits{
				{Name: "in force", Key: httplimit.Header("User"), Limit: hybrid.PerHour(30)},
				{Name: "tried", Limit: hybrid.PerHour(10), Shadow: true},
			},
			Observe: told.observe,
		})
		h := guard.Handler(hello)
		for range 20 {
			if r := get(h, user("x")); r.StatusCode != http.StatusOK ||
				strings.Contains(r.Header.Get("RateLimit"), "tried") {
				t.Fatalf("a shadow was seen: %v", r)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		all := told.taken()
		if len(all) != 10 || guard.Denied()["tried"] != uint64(len(all)) {
			t.Fatalf("told %d times, counted %v", len(all), guard.Denied())
		}
		if o := all[0]; o.Status != 0 || o.Denied[0] != "tried" || len(o.States) != 1 ||
			o.States[0].Allowed || o.RetryAfter == 0 {
			t.Errorf("told %+v", o)
		}
		for range 20 { // the limit in force denies now, and the shadow sees nothing of that
			get(h, user("x"))
		}
		synctest.Wait()
		denied := guard.Denied()
		if denied["in force"] != 10 || denied["tried"] != uint64(len(all))+10 {
			t.Errorf("denied %v", denied)
		}
	})
}

// TestShadowNeverFails: a store that is away is no reason to refuse for a shadow.
func TestShadowNeverFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newGuard(t, silent{}, httplimit.Config{
			Limits:  httplimit.Limits{{Name: "tried", Limit: hybrid.PerHour(10), Shadow: true}},
			OnError: httplimit.FailClosed,
		}).Handler(hello)
		for range 100 {
			began := time.Now()
			if r := get(h); r.StatusCode != http.StatusOK || time.Since(began) > 0 {
				t.Fatalf("%s after %v", r.Status, time.Since(began))
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// TestLists: an address goes by the list before all limits, and by a change at once.
func TestLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := new(lists.List)
		set := func(v lists.Verdict) {
			t.Helper()
			err := list.Set(lists.Entries{Prefixes: map[netip.Prefix]lists.Verdict{
				netip.MustParsePrefix("192.0.2.0/24"): v,
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		h := newGuard(t, hybrid.NewMemory(), httplimit.Config{
			Limits: httplimit.Limits{{Name: "client", Key: httplimit.Client{}, Limit: hybrid.PerHour(1)}},
			List:   httplimit.Client{}.Listed(list),
		}).Handler(hello)
		for _, c := range []struct {
			verdict lists.Verdict
			want    [2]int
		}{
			{lists.Allow, [2]int{200, 200}}, {lists.Deny, [2]int{403, 403}},
			{lists.Neither, [2]int{200, 429}}, {lists.Allow, [2]int{200, 200}},
		} {
			set(c.verdict)
			if got := [2]int{get(h).StatusCode, get(h).StatusCode}; got != c.want {
				t.Errorf("%v: %v", c.verdict, got)
			}
		}
		if r := get(h, from("198.51.100.1")); r.StatusCode != http.StatusOK {
			t.Errorf("an address that is not in the list: %s", r.Status)
		}
		set(lists.Deny)
		if body := get(h).Body; body != `{"type":"about:blank","title":"Forbidden","status":403}` {
			t.Error(body)
		}
	})
}

// TestNew: a configuration that makes no sense is refused, by an error that names the field and
// the value.
func TestNew(t *testing.T) {
	limiter := newLimiter(t, hybrid.NewMemory(), nil)
	key := func(k httplimit.Key) httplimit.Limits { return httplimit.Limits{{Name: "a", Key: k}} }
	for want, c := range map[string]struct {
		limits  httplimit.Limits
		onError httplimit.OnError
	}{
		"Config.OnError 0 is not":                  {key(nil), 0},
		"Config.OnError 3 is not":                  {key(nil), 3},
		"Config.Limits has 0 limits":               {nil, 1},
		"Config.Limits has 17 limits":              {make(httplimit.Limits, 17), 1},
		`Config.Limits[0].Name "" has 0 bytes`:     {httplimit.Limits{{}}, 1},
		`Config.Limits[0].Name "a:b" is not print`: {httplimit.Limits{{Name: "a:b"}}, 1},
		`Config.Limits[0].Name "é" is not print`:   {httplimit.Limits{{Name: "é"}}, 1},
		`[1].Name "a" is that of another`:          {httplimit.Limits{{Name: "a"}, {Name: "a"}}, 1},
		"[0].Limit 5 slots is for NewSlots": {
			httplimit.Limits{{Name: "a", Limit: hybrid.Slots(5)}}, 1,
		},
		"[0].Limit: ": {httplimit.Limits{{Name: "a", Limit: hybrid.PerSecond(-1)}}, 1},
		"[0].Limit 1/s burst 1 and .For are both set": {httplimit.Limits{{
			Name: "a", Limit: hybrid.PerSecond(1),
			For: func(string) hybrid.Limit { return hybrid.Unlimited },
		}}, 1},
		`[0].Key: Header "a b" is not`:        {key(httplimit.Header("a b")), 1},
		`[0].Key: Client.Header "a:" is not`:  {key(httplimit.Client{Header: "a:"}), 1},
		"[0].Key: Client.V4 33 is not from 1": {key(httplimit.Client{V4: 33}), 1},
		"[0].Key: Client.V6 -1 is not from 1": {key(httplimit.Client{V6: -1}), 1},
		"[0].Key: Client.Trusted[0] is not a pre": {key(httplimit.Client{
			Trusted: make([]netip.Prefix, 1),
		}), 1},
		"[0].Key: Client.Trusted[0] ::ffff:0.0.0.0/96 is IPv4": {key(httplimit.Client{
			Trusted: []netip.Prefix{netip.MustParsePrefix("::ffff:0:0/96")},
		}), 1},
	} {
		_, err := httplimit.New(limiter, httplimit.Config{Limits: c.limits, OnError: c.onError})
		contains(t, err, "httplimit: ")
		contains(t, err, want)
	}
	_, err := httplimit.New(nil, httplimit.Config{Limits: key(nil), OnError: httplimit.FailOpen})
	contains(t, err, "httplimit: limiter is nil")
}

// TestPattern: a Guard around a mux asks it for the pattern, and one within the mux has it.
func TestPattern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := http.NewServeMux()
		mux.Handle("GET /items/{id}", hello)
		mux.Handle("/", http.NotFoundHandler())
		var told outcomes
		around := newGuard(t, hybrid.NewMemory(), httplimit.Config{
			Limits: httplimit.Limits{
				{Name: "endpoint", Key: httplimit.Pattern{Mux: mux}, Limit: hybrid.PerHour(1)},
			},
			Observe: told.observe,
		}).Handler(mux)
		path := func(p string) func(*http.Request) {
			return func(r *http.Request) { r.URL.Path = p }
		}
		for _, c := range []struct {
			path   string
			status int
			key    string
		}{
			{"/items/1", 200, ""}, {"/items/2", 429, "endpoint:GET /items/{id}"},
			{"/x", 404, ""}, {"/y", 429, "endpoint:/"},
		} {
			r := get(around, path(c.path))
			if r.StatusCode != c.status {
				t.Errorf("%s: %s", c.path, r.Status)
			}
			if all := told.taken(); c.key != "" && (len(all) != 1 || all[0].States[0].Key != c.key) {
				t.Errorf("%s: told %+v", c.path, all)
			}
		}
		key := httplimit.Pattern{}
		mux.HandleFunc("/within", func(_ http.ResponseWriter, r *http.Request) {
			if k, ok := key.Key(r); k != "/within" || !ok {
				t.Errorf("within the mux: %q %v", k, ok)
			}
		})
		get(mux, path("/within"))
	})
}

// TestTwoGuards: what one Guard has written stays as another one adds its limits.
func TestTwoGuards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := func(name string) *httplimit.Guard {
			return newGuard(t, hybrid.NewMemory(), httplimit.Config{
				Limits: httplimit.Limits{{Name: name, Limit: hybrid.PerSecond(5)}},
			})
		}
		r := get(guard("outer").Handler(guard("inner").Handler(hello)))
		for field, want := range map[string][]string{
			"RateLimit":        {`"outer";r=4;t=1`, `"inner";r=4;t=1`},
			"RateLimit-Policy": {`"outer";q=5;w=1`, `"inner";q=5;w=1`},
		} {
			if got := r.Header.Values(field); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %q", field, got)
			}
		}
	})
}
