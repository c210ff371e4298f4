//go:build linux || darwin

package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/remote/redistest"
)

const masterName = "m"

// watched is a trio whose masters refuse to write when their replicas have gone to another master,
// as docs/operations.md says. So there are never two masters that write.
func (w *world) watched(t testing.TB) {
	w.config = []string{"min-replicas-to-write 1", "min-replicas-max-lag 10"}
	w.trio(t)
}

// trio is a master with two replicas, and three Sentinels.
func (w *world) trio(t testing.TB) {
	w.topology, w.gap = sentinel, 9*time.Second
	master := w.startNode(t, w.config...)
	w.nodes = []*node{master}
	for range 2 {
		// A server that is started again is an empty master: it is not in its file
		// whose replica it was.
		replica := w.startNode(t, w.config...)
		must(t, replica.follow(t.Context(), master))
		w.nodes = append(w.nodes, replica)
	}
	for range 3 {
		watch := w.startNode(t, "sentinel monitor m 127.0.0.1 "+master.port()+" 2",
			"sentinel down-after-milliseconds m 1000", "sentinel failover-timeout m 3000")
		w.watches = append(w.watches, watch)
		w.told = append(w.told, watch.addr)
	}
	must(t, w.awaitReplicas(t.Context()))
	failover := func(how func(*round, *node) error) func(*round) error {
		return func(r *round) error {
			old := w.master(r.ctx)
			if old == nil {
				return fmt.Errorf("no master")
			}
			if err := how(r, old); err != nil {
				return err
			}
			return w.awaitReplicas(r.ctx)
		}
	}
	w.deeds = []deed{
		{kind: "script flush", do: w.flushScripts},
		{kind: "failover", lost: true, promotes: 1, do: failover(func(r *round, old *node) error {
			var asked time.Time
			return eventually(r.ctx, "there is another master", func() bool {
				// A Sentinel gives up where another failover came between.
				if w.master(r.ctx) == old && time.Since(asked) > 8*time.Second &&
					w.watches[0].Do(r.ctx, "sentinel", "failover", masterName).Err() == nil {
					asked = time.Now()
				}
				return w.replaced(r.ctx, old)
			})
		})},
		{kind: "master killed", lost: true, promotes: 1, do: failover(func(r *round, old *node) error {
			old.Kill()
			if err := w.awaitMaster(r.ctx, old); err != nil {
				return err
			}
			if err := old.restart(r.ctx); err != nil {
				return err
			}
			return old.follow(r.ctx, w.master(r.ctx)) // a Sentinel would see to it after 8 s
		})},
		{kind: "master frozen", lost: true, promotes: 1, do: failover(func(r *round, old *node) error {
			old.Freeze()
			err := w.awaitMaster(r.ctx, old)
			old.Thaw()
			if err != nil {
				return err
			}
			return old.follow(r.ctx, w.master(r.ctx))
		})},
		{kind: "restart", lost: true, do: failover(func(r *round, old *node) error {
			return old.restart(r.ctx) // sooner than anybody takes it for dead
		})},
	}
}

// follow makes n a replica.
func (n *node) follow(ctx context.Context, master *node) error {
	if master == nil {
		return fmt.Errorf("no master for %s", n.addr)
	}
	return eventually(ctx, "it is a replica",
		func() bool { return n.ReplicaOf(ctx, "127.0.0.1", master.port()).Err() == nil })
}

// master is the node that the first Sentinel takes for it, nil if it answers as a replica.
func (w *world) master(ctx context.Context) *node {
	at, err := w.watches[0].Do(ctx, "sentinel", "get-master-addr-by-name", masterName).StringSlice()
	if err != nil || len(at) != 2 {
		return nil
	}
	i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.port() == at[1] })
	if i < 0 || !w.nodes[i].is(ctx, "role", "master") {
		return nil
	}
	return w.nodes[i]
}

// awaitMaster waits until there is another master.
func (w *world) awaitMaster(ctx context.Context, old *node) error {
	return eventually(ctx, "there is another master", func() bool { return w.replaced(ctx, old) })
}

// replaced reports whether all Sentinels say that there is another master.
func (w *world) replaced(ctx context.Context, old *node) bool {
	m := w.master(ctx)
	if m == nil || m == old {
		return false
	}
	for _, watch := range w.watches {
		at, err := watch.Do(ctx, "sentinel", "get-master-addr-by-name", masterName).StringSlice()
		if err != nil || len(at) != 2 || at[1] != m.port() {
			return false
		}
	}
	w.mu.Lock()
	w.agreed = clock()
	w.mu.Unlock()
	return true
}

// watchPromotions notes each replica that becomes a master. On a busy machine
// Sentinels and nodes take servers for dead that are slow.
func (w *world) watchPromotions(ctx context.Context) {
	seen := make([]time.Duration, len(w.nodes)) // as a replica, 0 if it is none
	for tick := time.NewTicker(50 * time.Millisecond); ctx.Err() == nil; <-tick.C {
		for i, n := range w.nodes {
			info, err := n.info(ctx, "replication")
			if err != nil {
				continue
			}
			now := clock()
			if info["role"] == "slave" {
				seen[i] = now
			} else if seen[i] > 0 {
				w.mu.Lock()
				w.promotions = append(w.promotions, span{seen[i], now})
				w.mu.Unlock()
				seen[i] = 0
			}
		}
	}
}

// unasked takes promotions since the last call, but for as many as have been asked
// for, as losses of state: the one that was replaced may have gone on for a
// while. So many more will be asked for now.
func (r *round) unasked(more int) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	known := min(r.awaited, len(r.promotions))
	r.awaited += more - known
	for _, x := range r.promotions[known:] {
		x.to += 10 * time.Second
		r.history.suffer(fault{kind: "failover unasked for", span: x, lost: true})
	}
	r.promotions = nil
}

// awaitReplicas waits until all nodes but the master are its replicas, and all
// Sentinels agree.
func (w *world) awaitReplicas(ctx context.Context) error {
	return eventually(ctx, "a master has all replicas", func() bool {
		m := w.master(ctx)
		if m == nil {
			return false
		}
		for _, n := range w.nodes {
			if n != m &&
				!(n.is(ctx, "master_port", m.port()) && n.is(ctx, "master_link_status", "up")) {
				return false
			}
		}
		for _, watch := range w.watches {
			info, err := watch.info(ctx, "sentinel")
			want := "name=m,status=ok,address=127.0.0.1:" + m.port() + ",slaves=2,sentinels=3"
			if err != nil || info["master0"] != want {
				return false
			}
		}
		return true
	})
}

// failingOver is a trio to which nothing but planned failovers happens. Until the Sentinels have
// told all processes, some ask the old master. It does not refuse, so no request goes without a
// verdict.
func (w *world) failingOver(t testing.TB) {
	w.trio(t)
	w.steady = true
	w.deeds = slices.DeleteFunc(w.deeds, func(d deed) bool { return d.kind != "failover" })
	w.deeds[0].kind, w.deeds[0].spares, w.deeds[0].splits = "planned failover", all, true
}

// masters is how many masters the tests' Clusters have.
const masters = 3

// moving is divided, and slots move as planned.
func (w *world) moving(t testing.TB) {
	w.divided(t)
	w.steady = true
	w.deeds = slices.DeleteFunc(w.deeds, func(d deed) bool {
		return d.kind != "resharding" && d.kind != "handover"
	})
	for i, d := range w.deeds {
		w.deeds[i].kind = "planned " + d.kind
		if d.kind == "resharding" { // a master that hands over pauses its clients
			w.deeds[i].spares = all
		}
	}
}

// bereft is a Redis Cluster of masters without replicas. When a master hangs, or is killed and
// started again, keys of healthy masters notice nothing.
func (w *world) bereft(t testing.TB) {
	w.clustered(t, 0, "cluster-require-full-coverage no")
	w.steady = true
	var victim *node
	for _, d := range []deed{{
		kind: "one of three hangs",
		do: func(r *round) error {
			victim.Freeze()
			r.sleep(3*time.Second + r.upTo(3*time.Second))
			victim.Thaw()
			return nil
		},
	}, {
		kind: "one of three killed", lost: true,
		do: func(r *round) error {
			victim.Kill()
			r.sleep(2*time.Second + r.upTo(time.Second))
			return victim.restart(r.ctx)
		},
	}} {
		do := d.do
		d.do = func(r *round) (err error) {
			if victim, _, err = w.owners(r.ctx, r.slot()); err != nil {
				return err
			}
			return do(r)
		}
		d.spares = func(r *round) []bool {
			spared := make([]bool, len(r.history.keys))
			for i, k := range r.history.keys {
				owner, _, err := w.owners(r.ctx, r.slotOf(k.Name))
				spared[i] = err == nil && owner != victim
			}
			return spared
		}
		d.rest = 2 * time.Second
		w.deeds = append(w.deeds, d)
	}
}

// divided is a Redis Cluster of three masters and three replicas.
func (w *world) divided(t testing.TB) {
	w.clustered(t, masters)
	w.deeds = []deed{
		{kind: "script flush", do: w.flushScripts},
		{kind: "resharding", do: w.reshard},
		{kind: "resharding", do: w.reshard},
		{kind: "handover", promotes: 1, do: func(r *round) error {
			slot := r.slot()
			owner, replica, err := w.owners(r.ctx, slot)
			if err != nil {
				return err
			}
			if replica == nil {
				return fmt.Errorf("%s has no replica", owner.addr)
			}
			if err := w.handOver(r.ctx, owner, replica, slot); err != nil {
				return err
			}
			return w.awaitCluster(r.ctx)
		}},
		{kind: "master killed", lost: true, promotes: 1, do: func(r *round) error {
			slot := r.slot()
			owner, _, err := w.owners(r.ctx, slot)
			if err != nil {
				return err
			}
			owner.Kill()
			err = w.awaitOwner(r.ctx, owner, slot)
			if err := errors.Join(err, owner.restart(r.ctx)); err != nil {
				return err
			}
			return w.awaitCluster(r.ctx)
		}},
		{kind: "master frozen", lost: true, promotes: 1, do: func(r *round) error {
			slot := r.slot()
			owner, _, err := w.owners(r.ctx, slot)
			if err != nil {
				return err
			}
			owner.Freeze()
			err = w.awaitOwner(r.ctx, owner, slot)
			owner.Thaw()
			if err != nil {
				return err
			}
			return w.awaitCluster(r.ctx)
		}},
		{kind: "restart", lost: true, do: func(r *round) error {
			owner, _, err := w.owners(r.ctx, r.slot())
			if err != nil {
				return err
			}
			if err := owner.restart(r.ctx); err != nil {
				return err
			}
			return w.awaitCluster(r.ctx)
		}},
	}
}

// clustered starts a Redis Cluster with a number of replicas.
func (w *world) clustered(t testing.TB, replicas int, config ...string) {
	const slots = 16384
	w.topology, w.gap = cluster, 5*time.Second
	ctx := t.Context()
	for i := range masters + replicas {
		_, bus, _ := net.SplitHostPort(redistest.FreeAddr(t))
		// A node's knowledge of the other nodes outlives it.
		n := w.startNode(t, append([]string{
			"cluster-enabled yes", "cluster-port " + bus, "cluster-node-timeout 1000", "dir " + t.TempDir(),
		}, config...)...)
		w.nodes, w.told = append(w.nodes, n), append(w.told, n.addr)
		if i < masters {
			must(t, n.ClusterAddSlotsRange(ctx, i*slots/masters, (i+1)*slots/masters-1).Err())
		}
		must(t, w.nodes[0].Do(ctx, "cluster", "meet", "127.0.0.1", n.port(), bus).Err())
	}
	for i, n := range w.nodes[masters:] {
		master, err := w.nodes[i].ClusterMyID(ctx).Result()
		must(t, err)
		must(t, eventually(ctx, "a node knows its master",
			func() bool { return n.ClusterReplicate(ctx, master).Err() == nil }))
	}
	must(t, w.awaitCluster(ctx))
}

// reshard moves the slot of a key to another master, while it is asked for.
func (w *world) reshard(r *round) error {
	slot := r.slot()
	from, _, err := w.owners(r.ctx, slot)
	if err != nil {
		return err
	}
	to := from
	for to == from || !to.is(r.ctx, "role", "master") {
		to = w.nodes[r.pick(len(w.nodes))]
	}
	fromID, toID := from.ClusterMyID(r.ctx).Val(), to.ClusterMyID(r.ctx).Val()
	if err := to.Do(r.ctx, "cluster", "setslot", slot, "importing", fromID).Err(); err != nil {
		return err
	}
	if err := from.Do(r.ctx, "cluster", "setslot", slot, "migrating", toID).Err(); err != nil {
		return err
	}
	r.sleep(r.upTo(300 * time.Millisecond)) // a key that is not there yet is asked for with ASKING
	for {
		keys, err := from.ClusterGetKeysInSlot(r.ctx, slot, 10).Result()
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		for _, key := range keys {
			if err := from.Migrate(r.ctx, "127.0.0.1", to.port(), key, 0, time.Second).Err(); err != nil {
				return err
			}
		}
	}
	r.sleep(r.upTo(300 * time.Millisecond))
	for _, n := range append([]*node{to, from}, w.nodes...) {
		if err := n.Do(r.ctx, "cluster", "setslot", slot, "node", toID).Err(); err != nil &&
			n.is(r.ctx, "role", "master") {
			return err
		}
	}
	return w.awaitCluster(r.ctx)
}

// owners are the master of a slot and a replica of it, as that master sees it.
func (w *world) owners(ctx context.Context, slot int) (master, replica *node, err error) {
	for _, n := range w.nodes {
		if n.frozen.Load() {
			continue
		}
		shards, err := n.ClusterShards(ctx).Result()
		if err != nil {
			continue // it is down
		}
		for _, s := range shards {
			if !slices.ContainsFunc(s.Slots, func(r redis.SlotRange) bool { return int(r.Start) <= slot && slot <= int(r.End) }) {
				continue
			}
			for _, x := range s.Nodes {
				port := x.Port
				if w.trust != nil {
					port = x.TLSPort
				}
				switch peer := w.at(port); {
				case x.Role == "master" && peer == n:
					master = n
				case x.Role == "replica":
					replica = peer
				}
			}
		}
		if master != nil {
			return master, replica, nil
		}
	}
	return nil, nil, fmt.Errorf("nobody owns slot %d", slot)
}

func (w *world) at(port int64) *node {
	i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.port() == fmt.Sprint(port) })
	if i < 0 {
		return nil
	}
	return w.nodes[i]
}

// handOver makes a replica the owner of its master's slots. A replica gives up without a word after
// 5 s, as on a busy machine (redis.io/commands/cluster-failover), so it is asked again.
func (w *world) handOver(ctx context.Context, owner, replica *node, slot int) error {
	var asked time.Time
	var refused error
	moved := eventually(ctx, "another node owns the slot", func() bool {
		if time.Since(asked) > 6*time.Second {
			err := replica.ClusterFailover(ctx).Err()
			if asked.IsZero() {
				refused = err // later on it may be the owner already
			}
			asked = time.Now()
		}
		now, _, err := w.owners(ctx, slot)
		return refused != nil || err == nil && now != owner
	})
	return errors.Join(refused, moved)
}

// awaitOwner waits until somebody else owns a slot.
func (w *world) awaitOwner(ctx context.Context, old *node, slot int) error {
	return eventually(ctx, "another node owns the slot", func() bool {
		owner, _, err := w.owners(ctx, slot)
		return err == nil && owner != old
	})
}

// awaitCluster waits until all is well.
func (w *world) awaitCluster(ctx context.Context) error {
	return eventually(ctx, "the cluster is whole", func() bool {
		for _, n := range w.nodes {
			info, err := n.info(ctx, "replication")
			if err != nil || info["role"] == "master" && info["connected_slaves"] == "0" && len(w.nodes) > masters ||
				info["role"] == "slave" && info["master_link_status"] != "up" {
				return false
			}
			text, err := n.ClusterInfo(ctx).Result()
			if err != nil || !slices.Contains(strings.Fields(text), "cluster_state:ok") ||
				!slices.Contains(strings.Fields(text), "cluster_known_nodes:"+strconv.Itoa(len(w.nodes))) {
				return false
			}
		}
		return true
	})
}
