package whatif

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

const shop = `domain: shop
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 10}
    trial: {unit: minute, requests_per_unit: 3, percent: 0}
  - key: user
    value: crawler
    rate_limit: {unit: hour, requests_per_unit: 5, kind: quota}
  - key: path
    value: /search
    rate_limit: {unit: second, requests_per_unit: 1000}
`

func parsed(t testing.TB, texts ...string) *rules.Rules {
	t.Helper()
	var docs []rules.Document
	for i, text := range texts {
		docs = append(docs, rules.Document{Name: fmt.Sprint(i), Text: []byte(text)})
	}
	r, err := rules.Parse(docs...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newRecord(t *testing.T, most int) *Record {
	t.Helper()
	r := parsed(t, shop)
	return New(most, func() *rules.Rules { return r })
}

// line is one of a hybrid.Recording, now.
func line(key, verdict string, cost int) string {
	return fmt.Sprintf(`{"time":%q,"key":%q,"n":%d,"cost":%d,"verdict":%q}`+"\n",
		time.Now().UTC().Format(time.RFC3339Nano), key, cost, cost, verdict)
}

func write(t *testing.T, r *Record, lines string) {
	t.Helper()
	if _, err := r.Of("shop").To.Write([]byte(lines)); err != nil {
		t.Fatal(err)
	}
}

func ask(t *testing.T, r *Record, path string, limit hybrid.Limit) Answer {
	t.Helper()
	a, err := r.Ask(t.Context(), "shop", path, limit)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestRecord: what a Limiter decides is recorded by rule. The rule's own limit denies then what it
// has denied, and others what they would have.
func TestRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l *rules.Limiter
		r := New(1<<20, func() *rules.Rules { return l.Rules() })
		l, err := rules.New(hybrid.NewMemory(), source{shop, strings.Replace(shop, "shop", "bank", 1)},
			rules.Config{Record: r.Of})
		if err != nil {
			t.Fatal(err)
		}
		names := []string{"ann", `a","n":5,"cost":9,"verdict":"denied`, `b\`, "\u202e\xff<b>", "crawler"}
		random := rand.New(rand.NewPCG(1, 4))
		var asked, denied int64
		for range 5000 {
			name := names[random.IntN(len(names))]
			result, err := l.Take(t.Context(), "shop", rules.Of("user", name))
			if err != nil {
				t.Fatal(err)
			}
			if name != "crawler" {
				asked++
				if !result.Allowed {
					denied++
				}
			}
			if _, err = l.Take(t.Context(), "bank", rules.Of("user", name)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(random.ExpFloat64() * 5e8))
		}
		time.Sleep(time.Second) // the last lines are written
		if err := l.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		a := ask(t, r, "user", hybrid.PerMinute(10))
		if a.Requests != asked || a.Denied != denied || a.Would != denied || denied == 0 {
			t.Errorf("%d of %d were denied, recorded %+v", denied, asked, a)
		}
		if a.Keys != 4 || a.KeysDenied != 4 || a.OneOf != 1 || a.Services != 1 || len(a.Worst) != 4 {
			t.Errorf("%+v", a)
		}
		if more := ask(t, r, "user", hybrid.PerMinute(15)); more.Would >= denied || more.Would == 0 {
			t.Errorf("a higher limit denies %d, not less than %d", more.Would, denied)
		}
		if a := ask(t, r, "user", hybrid.Unlimited); a.Would != 0 || a.Requests != asked {
			t.Errorf("without a limit: %+v", a)
		}
		if a := ask(t, r, "user", hybrid.Blocked); a.Would != asked {
			t.Errorf("blocked: %+v", a)
		}
		if a := ask(t, r, "user=crawler", hybrid.Quota(5, time.Hour)); a.Keys != 1 ||
			a.Requests == 0 || a.Would != a.Denied || a.Requests+asked != 5000 {
			t.Errorf("another rule: %+v", a)
		}
		if a := ask(t, r, "nothing", hybrid.PerMinute(1)); a.Requests != 0 || a.Keys != 0 {
			t.Errorf("no rule: %+v", a)
		}
	})
}

// A source is documents that stay.
type source []string

func (s source) Load(context.Context) (docs []rules.Document, tag string, err error) {
	for i, text := range s {
		docs = append(docs, rules.Document{Name: fmt.Sprint(i), Text: []byte(text)})
	}
	return docs, "1", nil
}

func (source) Wait(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestHour: what is older than an hour is forgotten, with its keys. A charge is no request.
func TestHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecord(t, 1<<20)
		write(t, r, line("user=old", "admitted", 1))
		time.Sleep(30 * time.Minute)
		write(t, r, line("user=ann", "admitted", 1)+line("user=ann", "denied", 1)+
			line("user=ann", "charged", 20)+line("user=ann", "denied", 1)+line("user=bob", "charged", 1)+"nonsense\n"+
			`{"time":"x","key":"user=x","n":1,"cost":1,"verdict":"admitted"}`+"\n"+
			strings.Replace(line("user=x", "admitted", 1), `"cost":1`, `"cost":-1`, 1)+
			line("user=ann!trial", "denied", 1))
		a := ask(t, r, "user", hybrid.PerMinute(10))
		if a.Requests != 4 || a.Denied != 2 || a.Would != 1 || a.Charges != 2 || a.Keys != 2 {
			t.Errorf("half an hour: %+v", a)
		}
		time.Sleep(31 * time.Minute)
		write(t, r, line("user=crawler", "admitted", 1))
		if a = ask(t, r, "user", hybrid.PerMinute(10)); a.Requests != 3 || a.Keys != 1 {
			t.Errorf("an hour: %+v", a)
		}
		if since := time.Since(a.From); since != time.Hour {
			t.Errorf("it is of the last %v", since)
		}
		time.Sleep(time.Hour + time.Minute)
		write(t, r, line("none", "admitted", 1))
		if size, _, _ := r.sizeLocked(); size != 0 || len(r.domains) > 0 {
			t.Errorf("%d bytes are left: %+v", size, r.domains["shop"])
		}
	})
}

// TestRulesChange: a key goes on at the rule that it is of then.
func TestRulesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := parsed(t, shop)
		r := New(1<<20, func() *rules.Rules { return now })
		write(t, r, line("user=ann", "admitted", 1)+line("user=bob", "admitted", 1))
		now = parsed(t, strings.Replace(shop, "crawler", "ann", 1))
		write(t, r, line("user=ann", "admitted", 1)+line("user=bob", "admitted", 1))
		now = parsed(t, shop)
		write(t, r, line("user=ann", "admitted", 1))
		for path, want := range map[string][2]int64{"user": {4, 2}, "user=ann": {1, 1}} {
			a := ask(t, r, path, hybrid.PerMinute(10))
			if a.Requests != want[0] || int64(a.Keys) != want[1] {
				t.Errorf("%s: %+v, want %v", path, a, want)
			}
		}
	})
}

// TestSharedBuckets: rules that share buckets are recorded as one, also under the path of a rule that
// is gone.
func TestSharedBuckets(t *testing.T) {
	r := parsed(t, `domain: shop
descriptors:
  - key: model
    rate_limit: {unit: second, requests_per_unit: 10}
    descriptors:
      - key: priority
        bucket: model
        rate_limit: {unit: second, requests_per_unit: 10}
        classes: [{value: critical, floor: 0.5}, {value: batch}]
  - key: client
    bucket: user
    rate_limit: {unit: second, requests_per_unit: 10}
`)
	record := New(1<<20, func() *rules.Rules { return r })
	write(t, record, line("model=m", "admitted", 1)+line("user=ann", "admitted", 1))
	d, _ := r.Domain("shop")
	for _, rule := range d.Rules {
		if a := ask(t, record, Path(rule), hybrid.Blocked); a.Requests != 1 {
			t.Errorf("%s, of %q: %+v", rule.Path, Path(rule), a)
		}
	}
}

// TestBounded: a record that does not fit has fewer keys of the largest rule, each of them whole,
// and a rule with few keys has a shorter time. Keys come back where there is room.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 100 << 10
		r := newRecord(t, most)
		sent := map[string]int64{}
		random := rand.New(rand.NewPCG(2, 4))
		for range 3000 {
			var lines strings.Builder
			for range 10 {
				name := fmt.Sprintf("user=u%d", random.IntN(2000))
				sent[name]++
				lines.WriteString(line(name, "admitted", 1))
			}
			lines.WriteString(line("path=/search", "admitted", 1))
			write(t, r, lines.String())
			if size, _, _ := r.sizeLocked(); size > most {
				t.Fatalf("%d bytes", size)
			}
			time.Sleep(100 * time.Millisecond)
		}
		a := ask(t, r, "user", hybrid.Blocked)
		if a.OneOf < 2 || a.Keys < 50 || int64(a.Keys) > 4000/a.OneOf {
			t.Errorf("one of %d: %d keys", a.OneOf, a.Keys)
		}
		for _, k := range a.Worst {
			if k.Requests != sent[k.Key] {
				t.Errorf("%s has %d of %d requests", k.Key, k.Requests, sent[k.Key])
			}
		}
		if a := ask(t, r, "path=/search", hybrid.Blocked); a.Requests != 3000 || a.OneOf != 1 {
			t.Errorf("the rule that was small: %+v", a)
		}
		time.Sleep(time.Hour)
		write(t, r, line("user=ann", "admitted", 1))
		time.Sleep(2 * time.Hour)
		for i := range 100 {
			write(t, r, line(fmt.Sprintf("user=%d", i), "admitted", 1))
		}
		if a := ask(t, r, "user", hybrid.Blocked); a.OneOf != 1 || a.Keys != 100 {
			t.Errorf("hours later one of %d is kept: %d keys", a.OneOf, a.Keys)
		}
	})
}

// TestWiden: keys that come back are told of once they are whole, an hour later.
func TestWiden(t *testing.T) {
	quarter := uint64(allKeys / 4)
	x := &trace{most: quarter, sure: quarter}
	for _, step := range []struct {
		now        int64 // minute
		room       bool
		most, sure uint64
	}{
		{100, false, quarter, quarter}, {101, true, 2*quarter + 1, quarter},
		{161, true, 2*quarter + 1, quarter}, {162, true, 2*quarter + 1, 2*quarter + 1},
		{163, true, 4*quarter + 3, 2*quarter + 1}, {224, true, 4*quarter + 3, 4*quarter + 3},
		{225, true, 4*quarter + 3, 4*quarter + 3},
	} {
		if x.widen(step.now, step.room); x.most != step.most || x.sure != step.sure {
			t.Errorf("%+v: %x, %x", step, x.most, x.sure)
		}
	}
	for i := range fewKeys {
		x.key(fmt.Sprint(i), 0)
	}
	x.widen(300, true)
	if x.thin(); x.most != allKeys/2 || x.sure != x.most {
		t.Errorf("%x, %x", x.most, x.sure)
	}
}

// TestShorter: of a single busy key the newest minutes are kept, and the answer says since when.
func TestShorter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 20 << 10
		r := newRecord(t, most)
		for range 20 * 60 {
			for range 20 {
				write(t, r, line("path=/search", "admitted", 1)+line("path=/search", "admitted", 1))
				time.Sleep(50 * time.Millisecond)
			}
		}
		a := ask(t, r, "path=/search", hybrid.PerSecond(1000))
		seconds := int64(time.Since(a.From).Seconds())
		if a.Requests < 40*(seconds-1) || a.Requests > 40*(seconds+1) || seconds < 60 || seconds > 1000 {
			t.Errorf("%d requests in %d s", a.Requests, seconds)
		}
		if size, _, _ := r.sizeLocked(); size > most {
			t.Errorf("%d bytes", size)
		}
	})
}

// TestBusy: who waits for too long is told so.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecord(t, 1<<20)
		for range mostPlays {
			r.room <- struct{}{}
		}
		if _, err := r.Ask(t.Context(), "shop", "user", hybrid.PerMinute(1)); !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		<-r.room
		write(t, r, line("user=ann", "admitted", 1))
		if _, err := r.Ask(ended, "shop", "user", hybrid.PerMinute(1)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestThinEnds: a trace becomes empty in some steps, whatever the hashes of its keys are.
func TestThinEnds(t *testing.T) {
	x := trace{most: allKeys, sure: allKeys}
	for i := range 4 * fewKeys {
		k := x.key(fmt.Sprint(i), uint64(i%2)) // a hash of 0 is kept by any halving
		x.add(k, decision{at: int64(i) * minute, cost: 1})
	}
	for range 200 {
		if x.thin(); x.size == 0 {
			return
		}
		if x.most == 0 || x.sure == 0 {
			t.Fatal("it keeps no key any more, and says so of all")
		}
	}
	t.Errorf("%d bytes are left", x.size)
}
