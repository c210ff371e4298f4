package rules_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// TestAmount: a rule has its limit as the document writes it, and not another way to write it.
func TestAmount(t *testing.T) {
	for text, want := range map[string]rules.Amount{
		"{unit: minute, requests_per_unit: 60}": {Unit: "minute", Requests: 60},
		"{unit: HOUR, requests_per_unit: 3600, burst: 60}": {
			Unit: "hour", Requests: 3600, Burst: 60,
		},
		"{unit: day, requests_per_unit: 5, kind: quota, offset: -5h30m, name: n}": {
			Unit: "day", Requests: 5, Kind: "quota", Offset: -5*time.Hour - 30*time.Minute,
		},
		"{unit: week, requests_per_unit: 0, kind: sliding}": {Unit: "week", Kind: "sliding"},
		"{unlimited: true, requests_per_unit: 7}":           {Unlimited: true},
	} {
		r, err := rules.ParseDomain("d", []byte("domain: d\ndescriptors: [{key: k, rate_limit: "+text+"}]"))
		if err != nil {
			t.Fatal(err)
		}
		d, _ := r.Domain("d")
		if got := d.Rules[0].Amount; got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

// A tape is what was written to it.
type tape struct {
	mu   sync.Mutex
	text strings.Builder
}

func (p *tape) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// TestRecord: each domain is recorded apart, and its Limiter has one way to be recorded.
func TestRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tapes := map[string]*tape{"shop": {}, "bank": {}}
		const limits = "\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1}}]"
		l, err := rules.New(hybrid.NewMemory(), newBoard("domain: shop"+limits, "domain: bank"+limits),
			rules.Config{Record: func(domain string) hybrid.Recording {
				return hybrid.Recording{To: tapes[domain], Name: true}
			}})
		if err != nil {
			t.Fatal(err)
		}
		for _, domain := range []string{"shop", "bank", "shop"} {
			if _, err := l.Take(t.Context(), domain, rules.Of("user", domain)); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		for domain, want := range map[string][]string{"shop": {"admitted", "denied"}, "bank": {"admitted"}} {
			var got []string
			for line := range strings.Lines(tapes[domain].text.String()) {
				_, verdict, ok := strings.Cut(line, `"key":"user=`+domain+`","n":1,"cost":1,"verdict":"`)
				verdict, _, _ = strings.Cut(verdict, `"`)
				if !ok {
					t.Errorf("%s: %s", domain, line)
				}
				got = append(got, verdict)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v", domain, got)
			}
		}
	})
	_, err := rules.New(hybrid.NewMemory(), newBoard(), rules.Config{
		Record:  func(string) hybrid.Recording { return hybrid.Recording{} },
		Limiter: hybrid.Config{Record: hybrid.Recording{To: io.Discard}},
	})
	if err == nil || !strings.Contains(err.Error(), "Config.Limiter.Record is set beside Record") {
		t.Error(err)
	}
}
