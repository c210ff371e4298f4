package rlqs_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// A book is a Source that changes once.
type book struct {
	limits  [2]string // each of a user
	bans    string    // a document, after the change
	at      atomic.Int64
	changed chan struct{}
}

func newBook(before, after string) *book {
	return &book{limits: [2]string{before, after}, changed: make(chan struct{})}
}

func (b *book) Load(context.Context) ([]rules.Document, string, error) {
	at := b.at.Load()
	text := "domain: shop\ndescriptors: [{key: user, rate_limit: " + b.limits[at] + "}]\n"
	docs := []rules.Document{{Name: "shop.yaml", Text: []byte(text)}}
	if at > 0 && b.bans != "" {
		docs = append(docs, rules.Document{Name: "bans.yaml", Text: []byte(b.bans)})
	}
	return docs, strconv.FormatInt(at, 10), nil
}

func (b *book) Wait(ctx context.Context, version string) error {
	if version == "0" {
		select {
		case <-b.changed:
			return nil
		case <-ctx.Done():
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func (b *book) change() {
	b.at.Store(1)
	close(b.changed)
	synctest.Wait()
}

const (
	unlimited = "{unlimited: true}"
	plenty    = "{unit: second, requests_per_unit: 1000}"
	daily     = "{unit: day, requests_per_unit: 20}"
)

// drive has an Envoy ask n times each 10 ms, and report, for a time.
func drive(c *client, n int, d time.Duration) (through int) {
	for now := time.Duration(0); now < d; now += 10 * time.Millisecond {
		if now%(5*time.Second) == 0 {
			c.report(false)
		}
		through += c.ask(n)
		time.Sleep(10 * time.Millisecond)
	}
	return through
}

func alone(t *testing.T, source rules.Source, user string) (*replica, *client) {
	r := newReplica(t, hybrid.NewMemory(), source)
	c := &client{id: &pb.BucketId{Bucket: map[string]string{"user": user}}}
	r.connect(c, time.Millisecond, 1)
	return r, c
}

func (r *replica) end(t *testing.T) {
	r.kill()
	time.Sleep(time.Minute)
	if err := r.limiter.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestLimitAfterUnlimited: where a limit replaces none, and nothing is left of it, Envoys deny
// after a tick.
func TestLimitAfterUnlimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newBook(unlimited, daily)
		r, c := alone(t, source, "ann")
		defer r.end(t)
		if n := drive(c, 1, 4100*time.Millisecond); n < 390 {
			t.Errorf("%d of 410 are admitted without a limit", n)
		}
		source.change() // between two ticks
		d := rules.Of("user", "ann")
		d.Hits = 20
		if got, err := r.limiter.Take(t.Context(), "shop", d); err != nil || !got.Allowed {
			t.Fatal(got, err)
		}
		time.Sleep(300 * time.Millisecond)
		if n := drive(c, 1, 4*time.Second); n > 0 {
			t.Errorf("%d are admitted of a quota that is used up", n)
		}
	})
}

// TestBanned: an Envoy denies a bucket that is banned after a tick, also one without a limit, and
// lets it through again when the ban has ended.
func TestBanned(t *testing.T) {
	for name, limit := range map[string]string{"unlimited": unlimited, "limited": plenty} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := newBook(limit, limit)
				source.bans = "domain: shop\nbans: [{descriptor: user=ann, reason: r, until: " +
					time.Now().Add(time.Minute).Format(time.RFC3339) + "}]\n"
				r, c := alone(t, source, "ann")
				defer r.end(t)
				if n := drive(c, 1, 10*time.Second); n < 900 {
					t.Errorf("%d of 1000 are admitted before", n)
				}
				source.change()
				drive(c, 1, 5*time.Second)
				if n := drive(c, 1, 20*time.Second); n > 0 {
					t.Errorf("%d are admitted of a bucket that is banned", n)
				}
				drive(c, 1, 40*time.Second)
				if n := drive(c, 1, 10*time.Second); n < 900 {
					t.Errorf("%d of 1000 are admitted after", n)
				}
			})
		})
	}
}

// TestBadUsage: what no rule can limit is denied, and what cannot be read ends no stream.
func TestBadUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := alone(t, document("domain: shop\ndescriptors: [{key: user, rate_limit: "+daily+"}]\n"),
			strings.Repeat("x", rules.MaxBytes+1))
		defer r.end(t)
		c.conn.reports <- &pb.RateLimitQuotaUsageReports{Domain: "shop",
			BucketQuotaUsages: []*pb.RateLimitQuotaUsageReports_BucketQuotaUsage{{}}}
		if n := drive(c, 1, time.Second); n > 0 {
			t.Errorf("%d are admitted with an id that is too long", n)
		}
		if c.conn.ctx.Err() != nil || !c.blank {
			t.Errorf("the stream has ended, or nothing was told: %+v", c.blank)
		}
	})
}
