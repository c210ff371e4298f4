package remote_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// aclUser is the user that docs/security.md tells operators to make, as words
// of the line that follows the comment of this topology.
func aclUser(t *testing.T, topology string) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n# "+topology+"\n")
	line, _, _ := strings.Cut(rest, "\n")
	if !found || !strings.HasPrefix(line, "user ration on >password ") {
		t.Fatalf("docs/security.md has no user for %s: %q", topology, line)
	}
	return strings.Fields(line)
}

// asUser makes the settings log in as that user.
func asUser(opt *redis.Options) *redis.Options {
	opt.Username, opt.Password = "ration", "password"
	return opt
}

// everything has a Store run each command of its scripts, and returns the first
// error: a key is opened, leases end and are gone through, and somebody looks.
func everything(t *testing.T, store *remote.Store) error {
	call := func(holder string, seq uint64, refresh time.Duration) *lease.Call {
		q := request(holder, 1)
		q.Seq, q.Seen, q.Demand = seq, seq-1, 50
		q.Limit = lease.Limit{Rate: 1000, Burst: 1000}
		q.Policy = lease.Policy{MaxRefresh: refresh, MaxHold: refresh}.Resolved()
		return &lease.Call{Key: "k", Request: q}
	}
	for _, life := range []time.Duration{time.Millisecond, time.Minute} {
		if err := store.Publish(t.Context(), life.String(), []byte("text"), life); err != nil {
			return err
		}
	}
	if err := store.Published(t.Context(), func(string, time.Duration, []byte) {}); err != nil {
		return err
	}
	crowd := make([]*lease.Call, 600) // more than are gone through at once
	for i := range crowd {
		crowd[i] = call(fmt.Sprint("dies", i), 1, 300*time.Millisecond)
	}
	store.Exchange(t.Context(), crowd)
	if err := crowd[0].Err; err != nil {
		return err
	}
	for seq := uint64(1); ; seq++ {
		stays := call("stays", seq, time.Millisecond)
		if store.Exchange(t.Context(), []*lease.Call{stays}); stays.Err != nil {
			return stays.Err
		}
		view, err := store.Inspect(t.Context(), "k")
		if err != nil {
			return err
		}
		if len(view.Holders) == 1 {
			return store.Reset(t.Context(), "k")
		}
		time.Sleep(time.Millisecond) // until the other's lease has ended, on the server's clock
	}
}

// TestACL: the documented user can do all that a Store does, and no less will
// do: without any one of its rights something fails.
func TestACL(t *testing.T) {
	user := aclUser(t, "a single server, or master and replicas")
	server := redistest.Start(t, strings.Join(user, " "))
	admin := server.Client()
	store := remote.New(client(t, asUser(patient(server.Addr))))
	if err := everything(t, store); err != nil {
		t.Fatal(err)
	}
	if denied := admin.ACLLog(t.Context(), 10).Val(); len(denied) > 0 {
		t.Errorf("it was denied %s", denied[0].Object)
	}
	rights := 0
	for _, right := range user {
		if !strings.HasPrefix(right, "+") && !strings.HasPrefix(right, "~") {
			continue
		}
		rights++
		fewer := slices.DeleteFunc(slices.Clone(user[2:]),
			func(r string) bool { return r == right })
		if err := admin.ACLSetUser(t.Context(), "ration", append([]string{"reset"}, fewer...)...).Err(); err != nil {
			t.Fatal(err)
		}
		admin.FlushAll(t.Context())
		admin.ScriptFlush(t.Context())
		if err := everything(t, store); err == nil {
			t.Errorf("it does as well without %s", right)
		}
	}
	if rights < 5 {
		t.Errorf("only %d rights in %q", rights, user)
	}
}

// refusals are how servers say that a user may not.
var refusals = []string{
	"NOPERM",
	"can't run this command", "can't access at least one of the keys", // in a script, Redis
	"ACL failure in script",       // Redis from 7.2 on, Valkey
	"unknown command `function`,", // Redis 6 has no functions
}

// TestACLDenies: what else somebody with that user's password may try.
func TestACLDenies(t *testing.T) {
	server := redistest.Start(t,
		strings.Join(aclUser(t, "a single server, or master and replicas"), " "))
	admin := server.Client()
	admin.HSet(t.Context(), "other:k", "#", "theirs")
	admin.HSet(t.Context(), "ration:k", "#", "ours")
	c := client(t, asUser(patient(server.Addr)))
	for _, try := range [][]any{
		{"flushall"}, {"flushdb"}, {"keys", "*"}, {"scan", "0"}, {"randomkey"}, {"dbsize"},
		{"select", "1"},
		{"del", "ration:k"}, {"unlink", "ration:k"}, {"rename", "ration:k", "ration:l"},
		{"get", "ration:k"}, {"dump", "ration:k"},
		{"hgetall", "other:k"}, {"hset", "other:k", "a", "b"}, {"hmget", "other:k", "#"},
		{"pexpire", "other:k", "1"},
		{"script", "flush"}, {"script", "kill"}, {"function", "flush"}, {"config", "get", "*"},
		{"config", "set", "maxmemory", "1"},
		{"acl", "whoami"}, {"acl", "setuser", "ration", "allcommands"}, {"monitor"},
		{"slowlog", "get"}, {"client", "list"}, {"info"},
		{"subscribe", "c"}, {"publish", "c", "m"}, {"replicaof", "no", "one"},
		{"shutdown", "nosave"},
		{"eval", "return redis.call('flushall')", "0"},
		{"eval", "return redis.call('keys', '*')", "0"},
		{"eval", "return redis.call('hgetall', KEYS[1])", "1", "other:k"},
		{"eval", "return redis.call('hset', 'other:k', 'a', 'b')", "1", "ration:k"}, // not declared
		{"eval", "return redis.call('hset', 'other:k', 'a', 'b')", "0"},
	} {
		err := c.Do(t.Context(), try...).Err()
		refused := func(words string) bool { return strings.Contains(err.Error(), words) }
		if err == nil || !slices.ContainsFunc(refusals, refused) {
			t.Errorf("%v: %v", try, err)
		}
	}
	if theirs, n := admin.HGetAll(t.Context(), "other:k").Val(), admin.DBSize(t.Context()).Val(); len(theirs) != 1 || n != 2 {
		t.Errorf("%v, %d keys", theirs, n)
	}
}

// TestACLRing: a Ring asks its servers whether they are there.
func TestACLRing(t *testing.T) {
	user := strings.Join(aclUser(t, "a Ring"), " ")
	opt := &redis.RingOptions{
		Addrs: map[string]string{
			"a": redistest.Start(t, user).Addr, "b": redistest.Start(t, user).Addr,
		},
		Username: "ration", Password: "password", DisableIdentity: true,
		HeartbeatFrequency: time.Millisecond,
	}
	ring := redis.NewRing(opt)
	t.Cleanup(func() { ring.Close() })
	store, calls := remote.New(ring), keys(20)
	for range 20 {
		mustExchange(t, store, next(calls))
		// A few heartbeats; three that fail are a server that is down.
		time.Sleep(opt.HeartbeatFrequency)
	}
}

// TestACLCluster: also where a slot is on its way.
func TestACLCluster(t *testing.T) {
	t.Parallel()
	user := strings.Join(aclUser(t, "Redis Cluster"), " ")
	cluster := redistest.StartCluster(t, 3, 0, user)
	opt := remote.Options("")
	c := clusterClient(t, cluster, &redis.ClusterOptions{
		Username: "ration", Password: "password",
		DisableIdentity:          opt.DisableIdentity,
		MaintNotificationsConfig: opt.MaintNotificationsConfig,
	})
	store, calls := remote.New(c), keys(20)
	mustExchange(t, store, calls)
	mustExchange(t, store, next(calls))
	if _, err := store.Inspect(t.Context(), calls[0].Key); err != nil {
		t.Error(err)
	}
	moving := keys(21)[20:]
	slot := cluster.Slot("ration:" + moving[0].Key)
	from, to := cluster.Owner(slot)
	cluster.Migrate(slot, from, to)
	mustExchange(t, store, moving)
	for _, node := range cluster.Masters {
		if denied := node.Client().ACLLog(t.Context(), 10).Val(); len(denied) > 0 {
			t.Errorf("it was denied %s", denied[0].Object)
		}
	}
}

// TestACLSentinel: the user of the master, and the one of the Sentinels, who
// are asked where it is and announce a new one.
func TestACLSentinel(t *testing.T) {
	t.Parallel()
	user := strings.Join(aclUser(t, "a single server, or master and replicas"), " ")
	master := redistest.Start(t, user)
	replica := redistest.Start(t, user, "replicaof 127.0.0.1 "+master.Port())
	sentinel := redistest.Start(t, "sentinel monitor m 127.0.0.1 "+master.Port()+" 1",
		strings.Join(aclUser(t, "a Sentinel"), " "))
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "m", SentinelAddrs: []string{sentinel.Addr}, MaxRetries: -1, DialerRetries: 1,
		DisableIdentity: true,
		Username:        "ration", Password: "password", SentinelUsername: "ration",
		SentinelPassword: "password",
	})
	t.Cleanup(func() { c.Close() })
	store, calls := remote.New(c), keys(1)
	mustExchange(t, store, calls)
	watch := sentinel.Client()
	redistest.Await(t, "the sentinel fails over", func() bool {
		return watch.Do(t.Context(), "sentinel", "failover", "m").Err() == nil
	})
	redistest.Await(t, "the replica answers as the master", func() bool {
		store.Exchange(t.Context(), next(calls))
		return calls[0].Err == nil && scriptCalls(t, replica.Client()) > 0
	})
	if denied := watch.ACLLog(t.Context(), 10).Val(); len(denied) > 0 {
		t.Errorf("it was denied %s", denied[0].Object)
	}
}
