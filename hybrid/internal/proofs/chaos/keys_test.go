//go:build linux || darwin

package chaos

import (
	"fmt"
	"math"
	"time"

	"github.com/seed13b07268/ration/lease"
)

func limit(rate float64, burst int64) lease.Limit { return lease.Limit{Rate: rate, Burst: burst} }

func quota(n int64, window time.Duration) lease.Limit {
	return lease.Limit{Kind: lease.KindQuota, Burst: n, Window: window}
}

func sliding(n int64, window time.Duration) lease.Limit {
	return lease.Limit{Kind: lease.KindSliding, Burst: n, Window: window}
}

func slots(n int64) lease.Limit { return lease.Limit{Kind: lease.KindSlots, Burst: n} }

// keys are the limits of a round, by what is special about them.
func (r *round) keys() []key {
	list := []key{
		{Name: "overloaded", Limit: limit(200, 40), Offered: 400, Most: 1, Clump: 1},
		// Dense enough for pockets.
		{Name: "in clumps", Limit: limit(2000, 400), Offered: 3000, Most: 1, Clump: 150, How: allow},
		{Name: "calm", Limit: limit(400, 200), Offered: 40, Most: 1, Clump: 1},
		{Name: "tiny", Limit: limit(5, 5), Offered: 15, Most: 1, Clump: 1}, // each request asks
		{Name: "of many tokens", Limit: limit(300, 100), Offered: 450, Most: 20, Clump: 1, How: wait},
		{Name: "a quota", Limit: quota(400, 2*time.Second), Offered: 400, Most: 1, Clump: 1},
		{Name: "a small quota", Limit: quota(12, time.Second), Offered: 30, Most: 3, Clump: 1},
	}
	groups := r.groups(len(list))
	list = append(list, groups[(r.turn+r.number)%len(groups)]...)
	for i, namespace := range r.namespaces {
		if namespace != "" { // another limit for the same name
			list = append(list, key{
				Name: "overloaded", Limit: limit(50*float64(i), 10), Offered: 150, Most: 1, Clump: 1,
				Namespace: namespace,
			})
		}
	}
	for i := range r.sparse {
		list = append(list,
			key{Name: fmt.Sprint("sparse ", i), Limit: limit(2, 6), Offered: 3, Most: 1, Clump: 4})
	}
	for i, k := range list {
		// What docs/operations.md asks for where the servers are far away.
		if k.Limit.Kind == lease.KindBucket {
			least := math.Ceil(4 * k.Limit.Rate * r.distance.Seconds())
			list[i].Limit.Burst = max(k.Limit.Burst, int64(least))
		}
		list[i].Name = fmt.Sprintf("%s %d %s", r.world.name, r.number, list[i].Name)
		list[i].Offered /= float64(*processes)
		if r.shares && list[i].How <= wait {
			list[i].How = take // it tells who decided
		}
	}
	return list
}

// groups are keys of the other kinds, of which a round has one group: with all of them the
// processes would not get to run. The first key has index n.
func (r *round) groups(n int) [][]key {
	groups := [][]key{{
		{Name: "sliding", Limit: sliding(200, 2*time.Second), Offered: 200, Most: 1, Clump: 1},
		{Name: "small sliding", Limit: sliding(12, time.Second), Offered: 30, Most: 3, Clump: 1},
	}, {
		{
			Name: "one of two", Limit: limit(30, 6), Offered: 60, Most: 2, Clump: 1, How: together,
			With: []int{n + 1, n + 2},
		},
		{Name: "the other of two", Limit: limit(20, 5), Offered: 10, Most: 1, Clump: 1},
		{Name: "quota of both", Limit: quota(40, 2*time.Second), Offered: 6, Most: 1, Clump: 1},
	}}
	if !r.shares { // what the outage policy has let in is settled at once
		groups = append(groups, []key{
			{
				Name: "reserved", Limit: limit(150, 60), Offered: 300, Most: 10, Clump: 1, How: reserve,
				With: []int{n + 1},
			},
			{Name: "few reserved", Limit: limit(20, 10), Offered: 40, Most: 4, Clump: 1, How: reserve},
		}, []key{
			{Name: "refunded", Limit: limit(300, 100), Offered: 1800, Most: 6, Clump: 1, How: refund},
			{
				Name: "refunded quota", Limit: quota(200, time.Second), Offered: 1200, Most: 6, Clump: 1,
				How: refund,
			},
			{
				Name: "refunded sliding", Limit: sliding(200, time.Second), Offered: 1200, Most: 6, Clump: 1,
				How: refund,
			},
		})
	}
	if r.maxKeys == 0 { // a key for which there is no room has no slots
		groups = append(groups, []key{
			{Name: "slots", Limit: slots(12), Offered: 120, Most: 3, Clump: 1, How: acquire},
			{Name: "few slots", Limit: slots(3), Offered: 40, Most: 2, Clump: 1, How: acquire},
			{Name: "one slot", Limit: slots(1), Offered: 20, Most: 1, Clump: 1, How: acquire},
		})
	}
	return groups
}
