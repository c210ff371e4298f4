package redisrules_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/internal/bookstest"
	"github.com/seed13b07268/ration/hybrid/rules/redisrules"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// TestMain drops what go-redis prints of servers that are killed here.
func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	os.Exit(m.Run())
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// state is a book on a server.
type state struct {
	t    *testing.T
	rdb  redisrules.Client
	wipe func()
}

func (s state) Open() rules.Book { return open(s.t, s.rdb) }
func (s state) Wipe()            { s.wipe() }

func open(t testing.TB, rdb redisrules.Client) *redisrules.Book {
	b, err := redisrules.New(rdb, "test")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func change(base int64, text string) rules.Change {
	c := rules.Change{Domain: "shop", Base: base, Author: "ann", Reason: "test"}
	if text != "" {
		c.Text = []byte(text)
	}
	return c
}

func mustSave(t *testing.T, b rules.Book, base int64, text string) rules.Revision {
	t.Helper()
	r, err := b.Save(t.Context(), change(base, text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBook(t *testing.T) {
	server := redistest.Start(t)
	bookstest.Test(t, func(t *testing.T) bookstest.State {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
		t.Cleanup(func() { rdb.Close() })
		wipe := func() { rdb.FlushAll(context.WithoutCancel(t.Context())) }
		wipe()
		return state{t, rdb, wipe}
	})
}

// TestCluster: both keys of a domain are on one node, whatever its name is.
func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	var addrs []string
	for _, n := range cluster.Nodes() {
		addrs = append(addrs, n.Addr)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { rdb.Close() })
	bookstest.Test(t, func(t *testing.T) bookstest.State {
		wipe := func() {
			for _, n := range cluster.Masters {
				n.Client().FlushAll(context.WithoutCancel(t.Context()))
			}
		}
		wipe()
		return state{t, rdb, wipe}
	})
}

// TestKilled: a server with persistence is killed in the middle of changes.
func TestKilled(t *testing.T) {
	server := redistest.Start(t, "appendonly yes", "appendfsync always", "dir "+t.TempDir())
	Open := func() rules.Book {
		rdb := redis.NewClient(&redis.Options{
			Addr: server.Addr, DialerRetries: 1, DialTimeout: time.Second, MinRetryBackoff: -1,
		})
		t.Cleanup(func() { rdb.Close() })
		return open(t, rdb)
	}
	bookstest.Killed(t, Open, 4, server.Restart)
}

// TestLostAnswer: the change is made once, nothing is sent twice, and saved again it is told.
func TestLostAnswer(t *testing.T) {
	server := redistest.Start(t)
	proxy := bookstest.NewProxy(t, "tcp", server.Addr)
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr}) // its defaults retry
	t.Cleanup(func() { rdb.Close() })
	b := open(t, rdb)
	mustSave(t, b, 0, "1")
	proxy.Lose("evalsha")
	if r, err := b.Save(t.Context(), change(1, "2")); err == nil || errors.Is(err, rules.ErrConflict) {
		t.Fatalf("a lost answer is %+v, %v", r, err)
	}
	if proxy.Lost() != 1 {
		t.Fatalf("%d answers were lost", proxy.Lost())
	}
	calls := server.Client().InfoMap(t.Context(), "commandstats").Val()["Commandstats"]
	if n := calls["cmdstat_evalsha"]; !strings.HasPrefix(n, "calls=2,") {
		t.Errorf("the script was called: %s", n)
	}
	if r := mustSave(t, b, 1, "2"); r.Version != 2 {
		t.Errorf("saved again as version %d", r.Version)
	}
}

// TestScriptForgotten: a server that was told to forget its scripts gets them anew.
func TestScriptForgotten(t *testing.T) {
	rdb := redistest.Start(t).Client()
	b := open(t, rdb)
	for v := range int64(3) {
		if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		mustSave(t, b, v, fmt.Sprint(v))
	}
}

// TestHistoryIsBounded: a domain keeps Keep revisions.
func TestHistoryIsBounded(t *testing.T) {
	rdb := redistest.Start(t).Client()
	b := open(t, rdb)
	for v := range int64(redisrules.Keep + 5) {
		mustSave(t, b, v, fmt.Sprint(v))
	}
	list, err := b.History(t.Context(), "shop", 0, 1000)
	if err != nil || len(list) != redisrules.Keep || list[len(list)-1].Version != 6 {
		t.Errorf("%d revisions, %v", len(list), err)
	}
	if n := rdb.HLen(t.Context(), "{ration:rules:test}:of:shop").Val(); n != redisrules.Keep {
		t.Errorf("%d records", n)
	}
	if list, err := b.History(t.Context(), "shop", 6, 1); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if _, _, err := rules.RollBack(t.Context(), b, "shop", 5, "ann", "test"); err == nil {
		t.Error("rolled back to a version that is gone")
	}
}

// TestServersClock: the time is the server's, whatever the writer's clock says.
func TestServersClock(t *testing.T) {
	server := miniredis.RunT(t)
	want := time.Date(2001, 2, 3, 4, 5, 6, 789_000, time.UTC)
	server.SetTime(want)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { rdb.Close() })
	if r := mustSave(t, open(t, rdb), 0, "1"); !r.Time.Equal(want) {
		t.Errorf("%v", r.Time)
	}
}

// TestNotice: Wait returns by the server's notice alone, and leaves no subscription behind.
func TestNotice(t *testing.T) {
	rdb := redistest.Start(t).Client()
	b := open(t, rdb)
	b.SetPoll(time.Hour)
	subscribers := func() int64 {
		return rdb.PubSubNumSub(t.Context(), "{ration:rules:test}").Val()["{ration:rules:test}"]
	}
	for v := range int64(2) {
		_, tag, err := b.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before, done := looks(t, rdb), make(chan error, 1)
		go func() { done <- b.Wait(t.Context(), tag) }()
		eventually(t, "it has looked, subscribed, and looked again", func() bool {
			return subscribers() == 1 && looks(t, rdb) >= before+2
		})
		mustSave(t, b, v, fmt.Sprint(v))
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(patience):
			t.Fatal("the notice was not heard")
		}
		eventually(t, "the subscription has ended", func() bool { return subscribers() == 0 })
	}
}

// TestWithoutNotices: a user who may not publish or subscribe changes rules and sees changes.
func TestWithoutNotices(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	err := admin.Do(t.Context(), "acl", "setuser", "deaf", "on", "nopass", "~*", "resetchannels",
		"+@all", "-publish", "-subscribe").Err()
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "deaf", Password: "x"})
	t.Cleanup(func() { rdb.Close() })
	b := open(t, rdb)
	_, tag, err := b.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- b.Wait(t.Context(), tag) }()
	eventually(t, "it has polled", func() bool { return looks(t, admin) >= 2 })
	mustSave(t, b, 0, "1")
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("the change was not seen")
	}
}

// patience is for a machine that is busy.
const patience = 20 * time.Second

// eventually waits until what holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// looks is how often somebody has asked for one field of a hash.
func looks(t *testing.T, rdb *redis.Client) (n int) {
	line := rdb.InfoMap(t.Context(), "commandstats").Val()["Commandstats"]["cmdstat_hget"]
	fmt.Sscanf(line, "calls=%d", &n)
	return n
}

// TestRights: a reader and an editor need no more than the package says.
func TestRights(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	reads := []string{"+hgetall", "+hget", "+hmget", "+subscribe"}
	writes := []string{"+eval", "+evalsha", "+hlen", "+hset", "+hdel", "+time", "+publish"}
	as := func(user string, rights ...string) *redisrules.Book {
		args := []any{"acl", "setuser", user, "on", ">secret", "~{ration:rules:test}*",
			"resetchannels", "&{ration:rules:test}", "+hello", "+auth"}
		for _, r := range rights {
			args = append(args, r)
		}
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
		opt := remote.Options(server.Addr)
		opt.Username, opt.Password = user, "secret"
		rdb := redis.NewClient(opt)
		t.Cleanup(func() { rdb.Close() })
		return open(t, rdb)
	}
	reader, editor := as("reader", reads...), as("editor", append(reads, writes...)...)
	mustSave(t, editor, 0, "1")
	docs, _, err := reader.Load(t.Context())
	if err != nil || len(docs) != 1 {
		t.Errorf("%v, %v", docs, err)
	}
	if list, err := reader.History(t.Context(), "shop", 0, 1); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if err := reader.Wait(t.Context(), "another"); err != nil {
		t.Error(err)
	}
	if r, err := reader.Save(t.Context(), change(1, "2")); err == nil {
		t.Errorf("%+v", r)
	}
	if log := admin.Do(t.Context(), "acl", "log").String(); strings.Contains(log, "editor") {
		t.Errorf("%s", log)
	}
}

// TestHalfMade: a change that the server refuses in the middle leaves nothing behind.
func TestHalfMade(t *testing.T) {
	rdb := redistest.Start(t).Client()
	b := open(t, rdb)
	mustSave(t, b, 0, "1")
	before := rdb.HGetAll(t.Context(), "{ration:rules:test}").Val()
	rdb.RPush(t.Context(), "{ration:rules:test}:of:bank", "a foreign list")
	_, err := b.Save(t.Context(), rules.Change{
		Domain: "bank", Text: []byte("1"), Author: "ann", Reason: "test",
	})
	if err == nil {
		t.Fatal("no error")
	}
	rdb.ConfigSet(t.Context(), "maxmemory", "1")
	if r, err := b.Save(t.Context(), change(1, "2")); err == nil {
		t.Errorf("without memory: %+v", r)
	}
	rdb.ConfigSet(t.Context(), "maxmemory", "0")
	after := rdb.HGetAll(t.Context(), "{ration:rules:test}").Val()
	if fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("%q has become %q", before, after)
	}
	if list, err := b.History(t.Context(), "shop", 0, 9); len(list) != 1 || err != nil {
		t.Errorf("%v, %v", list, err)
	}
	mustSave(t, b, 1, "2")
}

// TestOdd: records of others are errors, and never a panic or an empty book.
func TestOdd(t *testing.T) {
	rdb := redistest.Start(t).Client()
	b := open(t, rdb)
	for _, record := range []string{
		"", "1", "1 2 3", "1 2 3 ", "x 2 3 +{}", "1 2 3 {}", "1 2 3 *{}", "0 2 3 +{}", "1 2 3 +[]",
		"-1 2 3 +{}", "99999999999999999999 2 3 +{}",
	} {
		rdb.HSet(t.Context(), "{ration:rules:test}", "shop", record)
		if docs, _, err := b.Load(t.Context()); err == nil {
			t.Errorf("%q is %v", record, docs)
		}
		if list, err := b.History(t.Context(), "shop", 0, 1); err == nil {
			t.Errorf("%q is %v", record, list)
		}
	}
	rdb.Set(t.Context(), "{ration:rules:test}", "a string", 0)
	if docs, _, err := b.Load(t.Context()); err == nil {
		t.Errorf("%v", docs)
	}
	if err := b.Wait(t.Context(), ""); err == nil {
		t.Error("no error")
	}
}

// TestFrozen: a server that does not answer holds nobody for longer than its context or 5 s.
func TestFrozen(t *testing.T) {
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { rdb.Close() })
	b := open(t, rdb)
	mustSave(t, b, 0, "1")
	server.Freeze()
	defer server.Thaw()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	from := time.Now()
	if _, err := b.Save(ctx, change(1, "2")); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, _, err := b.Load(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := b.Wait(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if d := time.Since(from); d >= 5*time.Second { // what one takes that does not heed its context
		t.Errorf("they returned after %v", d)
	}
}

func TestNew(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	for _, name := range []string{"", "a b", "{a}", "ä", strings.Repeat("x", 101), "a\n"} {
		if _, err := redisrules.New(rdb, name); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
	if _, err := redisrules.New(nil, "a"); err == nil {
		t.Error("no client is one")
	}
}
