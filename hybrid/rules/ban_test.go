package rules_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/internal/bookstest"
)

// What is refunded to a quota comes back whether or not the store has been told of its use.
const banned = "domain: shop\ndescriptors:\n" +
	"- {key: user, rate_limit: {unit: day, requests_per_unit: 100, kind: quota}}\n"

// ban is one of an hour.
func ban(path string) rules.Ban {
	entries, err := rules.ParsePath(path)
	if err != nil {
		panic(err)
	}
	return rules.Ban{Entries: entries, Until: time.Now().Add(time.Hour), Reason: "abuse", Author: "ed"}
}

// TestBanFits: a descriptor is banned if it has all entries, and addresses count by their prefix.
func TestBanFits(t *testing.T) {
	for path, want := range map[string]struct{ yes, no string }{
		"user=ann": {"user=ann path=/,user=ann user=ann,path=/ user=bob,user=ann",
			"user=anna user user=Ann id=ann"},
		"tenant=a,user=ann": {"tenant=a,user=ann user=ann,tenant=a tenant=a,path=/,user=ann",
			"user=ann tenant=a tenant=b,user=ann"},
		"tenant,user=ann": {"tenant=a,user=ann tenant=b,user=ann", "user=ann tenant=a"},
		"ip=203.0.113.7": {"ip=203.0.113.7 ip=::ffff:203.0.113.7 ip=203.0.113.7/32",
			"ip=203.0.113.8 ip=203.0.113.0/24 ip=203.0.113.7:80 ip=x"},
		"ip=203.0.113.0/24": {"ip=203.0.113.255 ip=203.0.113.0/24 ip=203.0.113.64/26",
			"ip=203.0.114.0 ip=203.0.112.0/23 address=203.0.113.1 ip"},
		"ip=2001:db8::/64": {"ip=2001:db8::1 ip=2001:db8:0:0:ffff::/80 ip=2001:db8::1%eth0",
			"ip=2001:db8:0:1::1 ip=2001:db8::/63 ip=203.0.113.7"},
		"ip=::ffff:203.0.113.7":     {"ip=203.0.113.7", "ip=203.0.113.8"},
		"ip=::ffff:203.0.113.0/120": {"ip=203.0.113.7 ip=203.0.113.0/25", "ip=203.0.114.8"},
		"path=/,ip=10.0.0.0/8":      {"path=/,ip=10.1.1.1 ip=10.1.1.1,path=/", "ip=10.1.1.1 path=/,ip=11.1.1.1"},
	} {
		set := withBans(t, banned, ban(path))
		for _, list := range []struct {
			text string
			want bool
		}{{want.yes, true}, {want.no, false}} {
			for text := range strings.FieldsSeq(list.text) {
				entries := ban(text).Entries
				found, got := set.Banned("shop", time.Now(), rules.Descriptor{Entries: entries})
				if got != list.want || got && found.String() != path {
					t.Errorf("%s by %s: %v, %v", text, path, got, found)
				}
			}
		}
	}
}

// TestLongestBan: of several bans of a request the one that ends last tells its end, whatever their
// order.
func TestLongestBan(t *testing.T) {
	imprison(t, func(p prison) {
		long := ban("user=ann,path=/")
		long.Until = long.Until.Add(time.Hour)
		for _, list := range [][]rules.Ban{{ban("user=ann"), long}, {long, ban("user=ann")}} {
			for _, b := range list {
				p.set(b)
			}
			ann := rules.Of("user", "ann")
			for want, descriptors := range [][]rules.Descriptor{
				{ann.And("path", "/"), ann}, {ann, ann.And("path", "/")},
			} {
				r, err := p.limiter.Take(p.Context(), "shop", descriptors...)
				must(p.T, err)
				if r.Denied != want || r.Each[want].Ban.String() != "user=ann,path=/" ||
					r.Each[1-want].Ban.String() != "user=ann" {
					p.Errorf("%d denies, not %d: %+v", r.Denied, want, r)
				}
			}
		}
	})
}

// withBans are the rules of a text and bans, as a book keeps them.
func withBans(t *testing.T, text string, list ...rules.Ban) *rules.Rules {
	t.Helper()
	book := bookstest.NewMemory().Open()
	_, _, err := rules.Save(t.Context(), book, rules.Change{
		Domain: "shop", Text: []byte(text), Author: "ann", Reason: "begin",
	})
	must(t, err)
	for _, b := range list {
		_, err := rules.SetBan(t.Context(), book, "shop", b)
		must(t, err)
	}
	docs, _, err := book.Load(t.Context())
	must(t, err)
	set, err := rules.Parse(docs...)
	must(t, err)
	return set
}

// A prison is a Limiter that follows a book with the shop.
type prison struct {
	*testing.T
	book    rules.Book
	limiter *rules.Limiter
}

// imprison runs a test in virtual time.
func imprison(t *testing.T, test func(p prison)) {
	synctest.Test(t, func(t *testing.T) {
		state := bookstest.NewMemory()
		p := prison{T: t, book: state.Open()}
		_, _, err := rules.Save(t.Context(), p.book, rules.Change{
			Domain: "shop", Text: []byte(banned), Author: "ann", Reason: "begin",
		})
		must(t, err)
		p.limiter = newLimiter(t, hybrid.NewMemory(), state.Open(), rules.Config{})
		test(p)
	})
}

// set sets a ban, and returns when it must be in force.
func (p prison) set(b rules.Ban) {
	p.Helper()
	_, err := rules.SetBan(p.Context(), p.book, "shop", b)
	must(p.T, err)
	time.Sleep(time.Second)
}

// allowed asks for a token.
func (p prison) allowed(d ...rules.Descriptor) bool {
	p.Helper()
	r, err := p.limiter.Take(p.Context(), "shop", d...)
	must(p.T, err)
	return r.Allowed
}

// TestBan: a ban is in force within a second, tells its end and its reason, and ends by itself.
func TestBan(t *testing.T) {
	imprison(t, func(p prison) {
		ann := rules.Of("user", "ann")
		if !p.allowed(ann) {
			p.Fatal("she is denied before")
		}
		b := ban("user=ann")
		p.set(b)
		r, err := p.limiter.Take(p.Context(), "shop", rules.Of("user", "bob"), ann)
		must(p.T, err)
		s := r.Each[1]
		if r.Allowed || r.Denied != 1 || s.State != rules.Banned || s.Ban.Reason != "abuse" ||
			s.Ban.Author != "ed" || s.Decision.RetryAfter != time.Hour-time.Second ||
			s.Decision.Limit != hybrid.Blocked || r.Each[0] != (rules.Status{}) {
			p.Errorf("%+v", r)
		}
		if n := p.limiter.Stats().Domains[0].Banned; n != 1 {
			p.Errorf("%d were banned", n)
		}
		if r, err := p.limiter.Peek(p.Context(), "shop", rules.Of("user", "bob")); err != nil ||
			r.Each[0].Decision.Remaining != 100 {
			p.Errorf("a token of bob's was taken: %+v, %v", r, err)
		}
		time.Sleep(time.Until(b.Until) - 1)
		if p.allowed(ann) {
			p.Error("it has ended early")
		}
		time.Sleep(time.Nanosecond)
		if !p.allowed(ann) {
			p.Error("it has not ended")
		}
	})
}

// TestBanLifted: a ban is lifted within a second. Neither a roll back nor a deletion of the rules
// lifts one.
func TestBanLifted(t *testing.T) {
	imprison(t, func(p prison) {
		ann, ctx := rules.Of("user", "ann"), p.Context()
		p.set(ban("user=ann"))
		_, _, err := rules.Save(ctx, p.book, rules.Change{
			Domain: "shop", Base: 1, Text: []byte(strings.Replace(banned, "100", "9", 1)),
			Author: "ann", Reason: "less",
		})
		must(p.T, err)
		_, _, err = rules.RollBack(ctx, p.book, "shop", 1, "ann", "more")
		must(p.T, err)
		time.Sleep(time.Second)
		if p.allowed(ann) {
			p.Error("a roll back lifts the ban")
		}
		lifted, err := rules.LiftBan(ctx, p.book, "shop", ann.Entries, "vic", "a mistake")
		must(p.T, err)
		time.Sleep(time.Second)
		if lifted.Reason != "abuse" || !p.allowed(ann) {
			p.Errorf("%+v is not lifted", lifted)
		}
		if _, err := rules.LiftBan(ctx, p.book, "shop", ann.Entries, "vic", "again"); !errors.Is(err,
			rules.ErrNoBan) {
			p.Errorf("lifted twice: %v", err)
		}
		list, err := p.book.History(ctx, rules.BansPrefix+"shop", 0, 9)
		if err != nil || len(list) != 2 || list[0].Author != "vic" ||
			list[0].Reason != "user=ann is lifted: a mistake" ||
			!strings.HasPrefix(list[1].Reason, "user=ann until 2000-") {
			p.Errorf("%+v, %v", list, err)
		}
	})
}

// TestBanReadsNoRules: a change of bans does not have rules read again. One of the rules does.
func TestBanReadsNoRules(t *testing.T) {
	imprison(t, func(p prison) {
		before := p.limiter.Rules()
		p.set(ban("user=ann"))
		set := p.limiter.Rules()
		if len(set.Bans("shop", time.Now())) != 1 || len(before.Bans("shop", time.Now())) != 0 ||
			!rules.SameTree(before, set, "shop") {
			p.Error("the rules are read again, or the bans of before have changed")
		}
		_, err := rules.LiftBan(p.Context(), p.book, "shop", ban("user=ann").Entries, "ed", "enough")
		must(p.T, err)
		_, _, err = rules.Save(p.Context(), p.book, rules.Change{
			Domain: "shop", Base: 1, Text: []byte(strings.Replace(banned, "100", "9", 1)),
			Author: "ann", Reason: "less",
		})
		must(p.T, err)
		time.Sleep(time.Second)
		if after := p.limiter.Rules(); rules.SameTree(set, after, "shop") ||
			len(after.Bans("shop", time.Now())) != 0 {
			p.Error("the rules or the bans of before are in force")
		}
	})
}

// TestBannedVerbs: a ban denies each verb that asks for tokens, and none that brings some back or
// reports what was served.
func TestBannedVerbs(t *testing.T) {
	imprison(t, func(p prison) {
		ann, ctx := rules.Of("user", "ann"), p.Context()
		ann.Hits = 10
		held, err := p.limiter.Reserve(ctx, "shop", ann)
		must(p.T, err)
		p.set(ban("user=ann"))
		if r, err := p.limiter.Peek(ctx, "shop", ann); err != nil || r.Allowed ||
			r.Each[0].State != rules.Banned {
			p.Errorf("Peek: %+v, %v", r, err)
		}
		if r, err := p.limiter.Reserve(ctx, "shop", ann); err != nil || r.Allowed {
			p.Errorf("Reserve: %+v, %v", r, err)
		}
		must(p.T, held.Settle(4))
		used := ann
		used.Used = true
		if p.allowed(used) {
			p.Error("a report is allowed")
		}
		must(p.T, p.limiter.Refund("shop", rules.Descriptor{Entries: ann.Entries, Hits: 1}))
		_, err = rules.LiftBan(ctx, p.book, "shop", ann.Entries, "ed", "enough")
		must(p.T, err)
		time.Sleep(time.Second)
		r, err := p.limiter.Peek(ctx, "shop", rules.Of("user", "ann"))
		if left := r.Each[0].Decision.Remaining; err != nil || left != 100-4-10+1 {
			p.Errorf("%d are left: %v", left, err)
		}
	})
}

// TestSetBanAtOnce: of bans that several set at the same time none is lost, and of two of the same
// entries the last one stays.
func TestSetBanAtOnce(t *testing.T) {
	state := bookstest.NewMemory()
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			_, err := rules.SetBan(context.Background(), state.Open(), "shop",
				ban(fmt.Sprintf("user=u%d", i)))
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	again := ban("user=u3")
	again.Reason = "once more"
	set, err := rules.SetBan(t.Context(), state.Open(), "shop", again)
	must(t, err)
	list, err := rules.BansOf(t.Context(), state.Open(), "shop")
	if err != nil || len(list) != 10 || list[9].Reason != set.Reason || !list[9].Until.Equal(set.Until) {
		t.Errorf("%v, %v", list, err)
	}
}

// TestBanBounds: what makes no sense is refused, by its name. Bans that have ended make room.
func TestBanBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := bookstest.NewMemory().Open()
		refused := func(want string, adapt func(*rules.Ban)) {
			t.Helper()
			b := ban("user=ann")
			adapt(&b)
			_, err := rules.SetBan(t.Context(), book, "shop", b)
			if !errors.Is(err, rules.ErrBan) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not say %q", err, want)
			}
		}
		path := func(text string) func(*rules.Ban) {
			return func(b *rules.Ban) { b.Entries = ban(text).Entries }
		}
		end := func(after time.Duration) func(*rules.Ban) {
			return func(b *rules.Ban) { b.Until = time.Now().Add(after) }
		}
		reason := func(text string) func(*rules.Ban) {
			return func(b *rules.Ban) { b.Reason = text }
		}
		refused("0 entries", func(b *rules.Ban) { b.Entries = nil })
		refused("17 entries", func(b *rules.Ban) { b.Entries = make([]rules.Entry, 17) })
		refused("everybody", path("user"))
		refused("all addresses", path("ip=0.0.0.0/0"))
		refused("all addresses", path("ip=::/0"))
		refused("write 10.0.0.0/8", path("ip=10.1.0.0/8"))
		refused("513 bytes", path("user="+strings.Repeat("x", 508)))
		refused("is over", end(0))
		refused("is over", end(-time.Second))
		refused("no end", func(b *rules.Ban) { b.Until = time.Time{} })
		refused("more than 8784h", end(rules.MaxBanTime+1))
		refused("the reason is missing", reason(" "))
		refused("257 bytes", reason(strings.Repeat("x", 257)))
		refused("control", reason("a\nb"))
		refused("UTF-8", reason("\xff"))
		for i := range rules.MaxBans {
			_, err := rules.SetBan(t.Context(), book, "shop", ban(fmt.Sprintf("user=u%d", i)))
			must(t, err)
		}
		refused("has 200 already", path("user=ann"))
		time.Sleep(time.Hour)
		_, err := rules.SetBan(t.Context(), book, "shop", ban("user=ann"))
		must(t, err)
		list, err := rules.BansOf(t.Context(), book, "shop")
		if err != nil || len(list) != 1 {
			t.Errorf("%v, %v", list, err)
		}
		_, err = rules.SetBan(t.Context(), book, strings.Repeat("d", 249), ban("user=ann"))
		if !errors.Is(err, rules.ErrBan) {
			t.Error(err)
		}
	})
}

// FuzzBan: whatever bytes a ban has, its document means the same.
func FuzzBan(f *testing.F) {
	f.Add("user", "ann", "abuse", "ed")
	f.Add("a b", "\u202e\xff\x00\"'", "it's: {odd} # \\ \u2028", "<script>")
	f.Add("*", "2001:db8::/32", "\u0085x", "")
	f.Fuzz(func(t *testing.T, key, value, reason, author string) {
		b := rules.Ban{
			Entries: []rules.Entry{{Key: key, Value: value}}, Until: time.Now().Add(time.Minute),
			Reason: reason, Author: author,
		}
		book := bookstest.NewMemory().Open()
		set, err := rules.SetBan(t.Context(), book, "shop", b)
		if err != nil {
			return
		}
		list, err := rules.BansOf(t.Context(), book, "shop")
		if err != nil || len(list) != 1 || list[0].String() != b.String() ||
			list[0].Reason != reason || list[0].Author != author || !list[0].Until.Equal(set.Until) {
			t.Errorf("%+v is read as %+v: %v", b, list, err)
		}
		if _, err := rules.LiftBan(t.Context(), book, "shop", b.Entries, "ed", "no"); err != nil {
			t.Error(err)
		}
	})
}

// TestBanDocuments: bans stand in a document of their own, which says what is wrong with it.
func TestBanDocuments(t *testing.T) {
	const good = "domain: shop\nbans:\n- {descriptor: user=ann, until: 2100-01-01T12:00:00Z, reason: r}\n"
	for text, want := range map[string]string{
		good: "",
		strings.Replace(good, "user=ann", "user", 1):              "doc1.yaml:3:3: bans[0]: invalid ban",
		strings.Replace(good, "user=ann", "'='", 1):               "is not key=value",
		strings.Replace(good, "Z,", ",", 1):                       "bans[0].until: \"2100-01-01T12:00:00\" is no time",
		strings.Replace(good, "reason: r", "reson: r", 1):         `"reason" is the nearest one`,
		strings.Replace(good, ", reason: r", "", 1):               "the reason is missing",
		good + good[strings.Index(good, "- "):]:                   "a ban of user=ann is there already",
		good + "descriptors: []\n":                                "unknown field \"descriptors\"",
		"bans: []\n":                                              "the domain is missing",
		"domain: shop\nbans: {}\n":                                "is not a list of bans",
		"domain: bans of shop\ndescriptors: []\n":                 "begins with \"bans of \"",
		"domain: shop\nbans:\n" + strings.Repeat("- {}\n", 201):   "201 bans are more than 200",
		"domain: shop\nbans: [{}, [], &x {descriptor: user=ann}]": "is not a mapping",
	} {
		_, err := rules.Parse(
			rules.Document{Name: "doc0.yaml", Text: []byte(banned)},
			rules.Document{Name: "doc1.yaml", Text: []byte(text)},
		)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say %q", text, err, want)
		}
	}
	set, err := rules.Parse(rules.Document{Text: []byte(good)}, rules.Document{Text: []byte(banned)})
	must(t, err)
	if list := set.Bans("shop", time.Now()); len(list) != 1 || list[0].Until.Year() != 2100 {
		t.Errorf("%v", list)
	}
	if _, err := rules.Parse(rules.Document{Text: []byte(good)},
		rules.Document{Name: "two", Text: []byte(good)}); err == nil {
		t.Error("two documents of the same bans")
	}
	if _, err := rules.ParseDomain("shop", []byte(good)); err == nil {
		t.Error("bans in place of rules")
	}
	if _, err := rules.New(hybrid.NewMemory(), newBoard(good), rules.Config{}); err == nil {
		t.Error("bans are no rules, and nothing would be limited")
	}
}
