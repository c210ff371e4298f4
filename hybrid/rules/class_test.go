package rules_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/lease"
)

// models divides the limit of each model among two classes. Nothing else of it is limited but its
// users, and its staff by a rule of their own.
const models = `
domain: models
descriptors:
  - key: model
    descriptors:
      - key: priority
        rate_limit: {unit: second, requests_per_unit: 1000, burst: 200}
        classes:
          - {value: critical, floor: 0.5}
          - {value: batch, weight: 1}
      - key: priority
        value: staff
        rate_limit: {unit: second, requests_per_unit: 7}
      - key: user
        rate_limit: {unit: second, requests_per_unit: 5}
`

func ofModel(model string, more ...string) rules.Descriptor {
	d := rules.Of("model", model)
	for i := 0; i < len(more); i += 2 {
		d = d.And(more[i], more[i+1])
	}
	return d
}

// TestClassesMatch: classes match what a descriptor without a value matches, no more and no less:
// all values share a bucket, and one that is no class has the last one. What matches first, or is
// of another depth, is what it is without classes.
func TestClassesMatch(t *testing.T) {
	parsed, err := rules.Parse(rules.Document{Name: "models.yaml", Text: []byte(models)})
	must(t, err)
	without, after, _ := strings.Cut(models, "        classes:\n")
	after = after[strings.Index(after, "      - key: priority"):]
	plain, err := rules.Parse(rules.Document{Name: "models.yaml", Text: []byte(without + after)})
	must(t, err)
	for _, c := range []struct {
		d           rules.Descriptor
		rule, class string
		bucket      string
	}{
		{ofModel("x", "priority", "critical"), "model,priority", "critical", `model=x,priority^""`},
		{ofModel("x", "priority", "batch"), "model,priority", "batch", `model=x,priority^""`},
		{ofModel("x", "priority", "other"), "model,priority", "batch", `model=x,priority^""`},
		{ofModel("x", "priority", ""), "model,priority", "batch", `model=x,priority^""`},
		{ofModel("y", "priority", "batch"), "model,priority", "batch", `model=y,priority^""`},
		{ofModel("x", "priority", "staff"), "model,priority=staff", "", "model=x,priority=staff"},
		{ofModel("x", "user", "ann"), "model,user", "", "model=x,user=ann"},
		{ofModel("x"), "", "", ""},
		{ofModel("x", "priority", "batch", "user", "ann"), "", "", ""},
		{ofModel("x", "priority", "batch", "priority", "critical"), "", "", ""},
		{ofModel("x", "user", "ann", "priority", "critical"), "", "", ""},
	} {
		each, err := parsed.Explain("models", c.d)
		must(t, err)
		e := each[0]
		if e.Rule.Path != c.rule || e.Class != c.class || (e.State == rules.Limited) != (c.rule != "") ||
			!strings.HasSuffix(e.Key, c.bucket) {
			t.Errorf("%v: %+v", c.d, e)
		}
		before, err := plain.Explain("models", c.d)
		must(t, err)
		if before[0].Rule.Path != c.rule || before[0].State != e.State {
			t.Errorf("%v matches %q, and %q without classes", c.d, e.Rule.Path, before[0].Rule.Path)
		}
		if c.bucket == "" {
			continue
		}
		b, err := parsed.Bucket("models", c.bucket)
		if err != nil || b.Rule.Path != c.rule || b.Limit != e.Limit {
			t.Errorf("%s is of %+v, %v", c.bucket, b, err)
		}
	}
	if notes := parsed.Notes(); len(notes) != 1 || !strings.Contains(notes[0],
		"models.yaml:9:11: descriptors[0].descriptors[0].classes: a descriptor without priority has no limit: "+
			"give model the same rate_limit, and this rule the bucket of model") {
		t.Errorf("%q", notes)
	}
	domain, _ := parsed.Domain("models")
	if got := fmt.Sprint(domain.Rules[0].Counted, domain.Rules[0].Classes); got !=
		"[priority by class: critical floor 0.5, batch weight 1] [{critical 0.5 0} {batch 0 1}]" {
		t.Error(got)
	}
}

// TestClassesShareABucket: a rule of the level above, of the same limit, has the same bucket, and
// its requests have the last class. Rules of other classes cannot share one.
func TestClassesShareABucket(t *testing.T) {
	const shared = `
domain: models
descriptors:
  - key: model
    rate_limit: {unit: second, requests_per_unit: 1000, burst: 200}
    descriptors:
      - key: priority
        bucket: model
        rate_limit: {unit: second, requests_per_unit: 1000, burst: 200}
        classes: [{value: critical, floor: 0.5}, {value: batch, weight: 1}]
`
	parsed, err := rules.Parse(rules.Document{Name: "x.yaml", Text: []byte(shared)})
	must(t, err)
	each, err := parsed.Explain("models", ofModel("x"), ofModel("x", "priority", "critical"))
	must(t, err)
	if each[0].Key != each[1].Key || !strings.HasSuffix(each[0].Key, ":model=x") || each[1].Class != "critical" {
		t.Errorf("%+v", each)
	}
	if b, err := parsed.Bucket("models", "model=x"); err != nil || len(b.Rule.Classes) != 2 {
		t.Errorf("%+v, %v", b, err)
	}
	if notes := parsed.Notes(); len(notes) > 0 {
		t.Errorf("%q", notes)
	}
	other := shared + strings.Replace(shared[strings.Index(shared, "      - key: priority"):], "key: priority", "key: tier", 1)
	if _, err = rules.Parse(rules.Document{Name: "x.yaml", Text: []byte(other)}); err != nil {
		t.Errorf("rules of the same classes: %v", err)
	}
	i := strings.LastIndex(other, "0.5")
	_, err = rules.Parse(rules.Document{Name: "x.yaml", Text: []byte(other[:i] + "0.4" + other[i+3:])})
	if err == nil || !strings.Contains(err.Error(), "counts on this bucket, by another limit") {
		t.Errorf("rules of other classes: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		source, store := newBoard(shared), &classSpy{Store: hybrid.NewMemory()}
		l := newLimiter(t, store, source, rules.Config{})
		play := func() float64 {
			var group sync.WaitGroup
			group.Go(func() {
				for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Second / 3000) {
					if _, err := l.Take(t.Context(), "models", ofModel("x")); err != nil {
						t.Error(err)
					}
				}
			})
			part := offered(t, &group, l, "critical", 400, 5*time.Second)
			group.Wait()
			return part()
		}
		if part := play(); part < 0.95 || store.last() != "critical" {
			t.Errorf("%.3f of critical requests are admitted, the first class is %q", part, store.last())
		}
		alone, _, _ := strings.Cut(shared, "    descriptors:")
		source.put(alone)
		time.Sleep(2 * time.Second)
		if play(); store.last() == "critical" {
			t.Error("the classes of a rule that has gone are left")
		}
	})
}

// TestClassesOfAQuota: half of a day's quota is kept for a class.
func TestClassesOfAQuota(t *testing.T) {
	const daily = `
domain: models
descriptors:
  - key: priority
    rate_limit: {unit: day, requests_per_unit: 20}
    classes: [{value: critical, floor: 0.5}, {value: batch}]
`
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(daily), rules.Config{})
		admitted := map[string]int{}
		for range 15 {
			for _, class := range []string{"batch", "other", "critical"} {
				r, err := l.Take(t.Context(), "models", rules.Of("priority", class))
				must(t, err)
				if r.Allowed {
					admitted[class]++
				}
			}
		}
		if fmt.Sprint(admitted) != "map[batch:5 critical:10 other:5]" {
			t.Errorf("admitted %v of 20", admitted)
		}
	})
}

// TestClassesOfShadows: a shadow counts by class, too.
func TestClassesOfShadows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &classSpy{Store: hybrid.NewMemory()}
		shadow := strings.Replace(models, "        classes:", "        shadow_mode: true\n        classes:", 1)
		l := newLimiter(t, store, newBoard(shadow), rules.Config{})
		r, err := l.Take(t.Context(), "models", ofModel("x", "priority", "critical"))
		if err != nil || r.Each[0].State != rules.Shadow {
			t.Fatal(r, err)
		}
		time.Sleep(100 * time.Millisecond)
		if store.mu.Lock(); store.asked != "critical" {
			t.Errorf("asks for %q", store.asked)
		}
		store.mu.Unlock()
	})
}

// A classSpy is a Store that notes the first class of the last exchange, and the class that was
// last asked for.
type classSpy struct {
	hybrid.Store
	mu           sync.Mutex
	first, asked string
}

func (s *classSpy) Exchange(ctx context.Context, calls []*lease.Call) {
	s.mu.Lock()
	for _, c := range calls {
		if s.first = ""; c.Request.ByClass != nil {
			s.first = c.Request.ByClass.Classes[0].Name
			if by := c.Request.ByClass; c.Request.Take > 0 {
				s.asked = by.Classes[by.First].Name
			}
		}
	}
	s.mu.Unlock()
	s.Store.Exchange(ctx, calls)
}

func (s *classSpy) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first
}

// TestClassOfRepeatedEntries: of entries of the same key the one at the place of the classes
// counts, the last. Of descriptors of one bucket the first one's class does.
func TestClassOfRepeatedEntries(t *testing.T) {
	nested := strings.Replace(models, "key: model", "key: priority", 1)
	parsed, err := rules.Parse(rules.Document{Name: "x.yaml", Text: []byte(nested)})
	must(t, err)
	each, err := parsed.Explain("models", rules.Of("priority", "batch").And("priority", "critical"))
	if err != nil || each[0].Class != "critical" {
		t.Errorf("%+v, %v", each, err)
	}
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(models), rules.Config{})
		r, err := l.Take(t.Context(), "models", ofModel("x", "priority", "batch"), ofModel("x", "priority", "critical"))
		if err != nil || !r.Allowed {
			t.Errorf("two classes of one bucket: %+v, %v", r, err)
		}
	})
}

// offered asks for a class at a rate, in a process, for some time.
func offered(
	t *testing.T, group *sync.WaitGroup, l *rules.Limiter, class string, rate float64, d time.Duration,
) (part func() float64) {
	asked, admitted := 0, 0
	group.Go(func() {
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Duration(1e9 / rate)) {
			asked++
			r, err := l.Take(t.Context(), "models", ofModel("x", "priority", class))
			if err != nil {
				t.Error(err)
			} else if r.Allowed {
				admitted++
			}
		}
	})
	return func() float64 { return float64(admitted) / float64(asked) }
}

// TestClassesOfRules: a class has its floor beside another one that wants three times the limit. As
// rules change, so do the classes of a bucket, without a new bucket: they go with their rule's.
func TestClassesOfRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		source := newBoard(models)
		var fleet []*rules.Limiter
		for range 2 {
			fleet = append(fleet, newLimiter(t, store, source, rules.Config{}))
		}
		play := func() (critical, batch float64) {
			var group sync.WaitGroup
			var parts [2][]func() float64
			for _, l := range fleet {
				offered(t, &group, l, "critical", 200, time.Second) // for a second demand is news
				offered(t, &group, l, "batch", 1500, time.Second)
			}
			group.Wait()
			for _, l := range fleet {
				parts[0] = append(parts[0], offered(t, &group, l, "critical", 200, 4*time.Second))
				parts[1] = append(parts[1], offered(t, &group, l, "batch", 1500, 4*time.Second))
			}
			group.Wait()
			return (parts[0][0]() + parts[0][1]()) / 2, (parts[1][0]() + parts[1][1]()) / 2
		}
		for _, c := range []struct {
			name, text string
			favoured   bool
		}{
			{"classes", models, true},
			{"other classes", strings.NewReplacer("critical, floor: 0.5", "batch, floor: 0.95", "batch, weight: 1", "critical").
				Replace(models), false},
			{"classes again", models, true},
			{"none", strings.NewReplacer("{value: critical, floor: 0.5}", "{value: all}",
				"          - {value: batch, weight: 1}\n", "").Replace(models), false},
		} {
			source.put(c.text)
			time.Sleep(2 * time.Second)
			critical, batch := play()
			t.Logf("%s: %.3f of critical requests, %.3f of batch", c.name, critical, batch)
			if (critical > 0.9) != c.favoured || batch < 0.15 {
				t.Errorf("%s: %.3f of critical requests, %.3f of batch", c.name, critical, batch)
			}
		}
	})
}

// TestClassesGo: when a rule has no classes any more, its new bucket has none, and when the
// document is a quota now, neither has that: no request meets an error.
func TestClassesGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newBoard(models)
		l := newLimiter(t, hybrid.NewMemory(), source, rules.Config{})
		for _, text := range []string{
			models, strings.Replace(models, "unit: second, requests_per_unit: 1000", "unit: minute, requests_per_unit: 1000", 1),
			"domain: models\ndescriptors: [{key: model, descriptors: [{key: priority, rate_limit: " +
				"{unit: day, requests_per_unit: 100}}]}]", models,
		} {
			source.put(text)
			for range 40 {
				time.Sleep(50 * time.Millisecond)
				if _, err := l.Take(t.Context(), "models", ofModel("x", "priority", "critical")); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestClassesOfPolicy: a policy that does not divide by class is refused with the document that has
// classes, by an error that names its line.
func TestClassesOfPolicy(t *testing.T) {
	for _, policy := range []hybrid.Policy{{Mode: lease.Batches}, {Fairness: lease.MaxMin}} {
		l, err := rules.New(hybrid.NewMemory(), newBoard(models), rules.Config{Limiter: hybrid.Config{Policy: policy}})
		if err == nil || !strings.Contains(err.Error(), "rules: doc0.yaml:6: classes beside Config.Limiter.Policy") {
			t.Errorf("%+v: %v", policy, err)
		}
		if l != nil {
			must(t, l.Close(t.Context()))
		}
	}
	fair := strings.Replace(models, "domain: models", "domain: models\nfairness: proportional", 1)
	newLimiter(t, hybrid.NewMemory(), newBoard(fair), rules.Config{
		Limiter: hybrid.Config{Policy: hybrid.Policy{Fairness: lease.MaxMin}},
	})
	for _, c := range []hybrid.Config{
		{Classes: []hybrid.Class{{Name: "a"}}}, {ClassesFor: func(string) []hybrid.Class { return nil }},
	} {
		_, err := rules.New(hybrid.NewMemory(), newBoard(models), rules.Config{Limiter: c})
		if err == nil || !strings.Contains(err.Error(), "Config.Limiter.Classes or ClassesFor is set") {
			t.Error(err)
		}
	}
}

// TestClassesOfReports: a look is answered for its class, and a report that does not fit is a debt of
// its class, which leaves the others alone.
func TestClassesOfReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(models), rules.Config{})
		look := func(class string) (bool, hybrid.Decision) {
			r, err := l.Peek(t.Context(), "models", ofModel("x", "priority", class))
			must(t, err)
			return r.Allowed, r.Each[0].Decision
		}
		var group sync.WaitGroup
		offered(t, &group, l, "critical", 300, 4*time.Second)
		offered(t, &group, l, "batch", 3000, 4*time.Second)
		group.Wait()
		report := ofModel("x", "priority", "batch")
		report.Hits, report.Used = 200, true
		r, err := l.Take(t.Context(), "models", report)
		if err != nil || r.Allowed {
			t.Fatalf("%+v, %v", r, err)
		}
		if allowed, d := look("critical"); !allowed || d.Remaining < 5 {
			t.Errorf("critical may not begin: %+v", d)
		}
		if allowed, d := look("batch"); allowed || d.RetryAfter < 50*time.Millisecond {
			t.Errorf("batch, which owes, may begin: %+v", d)
		}
		if allowed, d := look("other"); allowed {
			t.Errorf("what is no class has the last one: %+v", d)
		}
		report.Used = false
		must(t, l.Refund("models", report))
		if allowed, d := look("batch"); !allowed {
			t.Errorf("what batch owes is not forgiven: %+v", d)
		}
		must(t, l.Charge("models", report))
		if allowed, d := look("critical"); !allowed {
			t.Errorf("a Charge of batch is not its own: %+v", d)
		}
		reserved, err := l.Reserve(t.Context(), "models", ofModel("x", "priority", "critical"))
		must(t, err)
		must(t, reserved.Settle(200))
		if allowed, d := look("critical"); allowed {
			t.Errorf("what critical has cost above its estimate is not its own: %+v", d)
		}
	})
}
