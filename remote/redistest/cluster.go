package redistest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// slots is how many a Redis Cluster has.
const slots = 16384

// A Cluster is a Redis Cluster. A node that is started again is no longer part of it.
type Cluster struct {
	Masters  []*Server // when it was started; each has an equal part of the slots
	Replicas []*Server // of the masters in turn

	t testing.TB
}

// StartCluster starts a Cluster, with more lines of redis.conf for each node if
// need be, and returns when all its nodes agree that it is up.
func StartCluster(t testing.TB, masters, replicas int, config ...string) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	for i := range masters + replicas {
		node := Start(t, append([]string{"cluster-enabled yes"}, config...)...)
		if i < masters {
			c.Masters = append(c.Masters, node)
			add := []any{"cluster", "addslots"} // Redis 6 has no addslotsrange
			for slot := i * slots / masters; slot < (i+1)*slots/masters; slot++ {
				add = append(add, slot)
			}
			do(t, node, add...)
		} else {
			c.Replicas = append(c.Replicas, node)
		}
		do(t, c.Masters[0], "cluster", "meet", "127.0.0.1", node.Port())
	}
	all := fmt.Sprintf("cluster_known_nodes:%d\r", masters+replicas)
	for _, node := range c.Nodes() {
		Await(t, "the cluster is up", func() bool {
			info := do(t, node, "cluster", "info").(string)
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, all)
		})
	}
	for i, replica := range c.Replicas {
		do(t, replica, "cluster", "replicate", c.ID(c.Masters[i%masters]))
	}
	for i, replica := range c.Replicas {
		Await(t, "the replicas follow", func() bool {
			role, ok := do(t, replica, "role").([]any)
			return ok && len(role) > 3 && role[3] == "connected"
		})
		Await(t, "the master knows its replica", func() bool {
			master := c.Masters[i%masters]
			list, _ := do(t, master, "cluster", "replicas", c.ID(master)).([]any)
			return strings.Contains(fmt.Sprint(list), replica.Addr)
		})
	}
	return c
}

// Nodes are the masters and the replicas.
func (c *Cluster) Nodes() []*Server {
	return append(append([]*Server(nil), c.Masters...), c.Replicas...)
}

// ID is a node's name in the cluster.
func (c *Cluster) ID(node *Server) string {
	return do(c.t, node, "cluster", "myid").(string)
}

// Slot is that of a key.
func (c *Cluster) Slot(key string) int {
	return int(do(c.t, c.Masters[0], "cluster", "keyslot", key).(int64))
}

// Owner is the one of the masters that had the slot at first, and other is the next.
func (c *Cluster) Owner(slot int) (owner, other *Server) {
	n := len(c.Masters)
	i := (slot*n + n - 1) / slots
	return c.Masters[i], c.Masters[(i+1)%n]
}

// Migrate begins to move a slot. Keys that are not there any more, or not yet,
// are answered with ASK.
func (c *Cluster) Migrate(slot int, from, to *Server) {
	c.t.Helper()
	do(c.t, to, "cluster", "setslot", slot, "importing", c.ID(from))
	do(c.t, from, "cluster", "setslot", slot, "migrating", c.ID(to))
}

// Move moves a slot with its keys, one by one. Nodes that have not heard of it
// yet answer with MOVED.
func (c *Cluster) Move(slot int, from, to *Server) {
	c.t.Helper()
	c.Migrate(slot, from, to)
	for {
		keys := do(c.t, from, "cluster", "getkeysinslot", slot, 1).([]any)
		if len(keys) == 0 {
			break
		}
		do(c.t, from, "migrate", "127.0.0.1", to.Port(), keys[0], 0, patience.Milliseconds())
	}
	id := c.ID(to)
	for _, node := range []*Server{to, from} { // so that the slot always has an owner
		do(c.t, node, "cluster", "setslot", slot, "node", id)
	}
	// Moves in quick succession may have the same epoch, and one of them is undone, also later. So
	// the next one begins when all masters know the epochs of all.
	Await(c.t, "all masters agree on who owns a slot", func() bool {
		known := map[string]bool{}
		for _, node := range c.Masters {
			if owner(c.t, node, slot) != id {
				do(c.t, node, "cluster", "setslot", slot, "node", id)
				return false
			}
			known[epochs(c.t, node)] = true
		}
		return len(known) == 1 && !known[""]
	})
}

// epochs are those of the masters, as far as node knows, or empty if two are the same.
func epochs(t testing.TB, node *Server) string {
	t.Helper()
	var all []string
	seen := map[string]bool{}
	for line := range strings.Lines(do(t, node, "cluster", "nodes").(string)) {
		words := strings.Fields(line) // ID, address, flags, its master, pings, pongs, epoch
		if !strings.Contains(words[2], "master") {
			continue
		}
		if seen[words[6]] {
			return ""
		}
		seen[words[6]] = true
		all = append(all, words[0]+" "+words[6])
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// owner is the name of the node that has a slot, as far as node knows.
func owner(t testing.TB, node *Server, slot int) string {
	t.Helper()
	for _, r := range do(t, node, "cluster", "slots").([]any) { // Redis 6 has no shards
		r := r.([]any) // from, to, the master, its replicas; each of these: host, port, name, ...
		if from, to := r[0].(int64), r[1].(int64); from <= int64(slot) && int64(slot) <= to {
			return r[2].([]any)[2].(string)
		}
	}
	return ""
}

// do runs a command on a server of a test.
func do(t testing.TB, s *Server, args ...any) any {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2})
	defer c.Close()
	v, err := c.Do(context.Background(), args...).Result()
	if err != nil {
		t.Fatalf("redistest: %v: %v", args, err)
	}
	return v
}

// Await waits until what holds, for 40 s in which the program runs: at most a second between two
// looks counts, however long the machine stands still.
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	var waited time.Duration
	for last := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		waited += min(time.Since(last), time.Second)
		last = time.Now()
		if waited > 4*patience {
			t.Fatalf("redistest: waited in vain until %s", what)
		}
	}
}
