package engine

import (
	"fmt"
	"testing"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/workload"
)

// Clients that all wait send no new requests, and are demand all the same: no
// process admits less than 0.7 of what its clients' part of all would be,
// whichever was served first. (Without leases, processes get as much as each
// other.) Latency does not vary here, so that who is first once always is.
func TestWaitingClientsShareEvenly(t *testing.T) {
	longform.None(t)
	const clients = 32
	for _, limit := range []string{"limit: 50/s, burst: 10", "limit: 500/s, burst: 100", "limit: 20/s, burst: 1"} {
		for _, mode := range []string{"auto", "shares", "per-request", "batches"} {
			s := read(t, fmt.Sprintf(`{processes: 2, %s, duration: 30s, warmup: 10s, policy: {mode: %s}, balance: {by: sticky},
				load: {clients: {count: %d, think: 1ms}, patience: 60s}}`, limit, mode, clients))
			e := start(t, s, 0)
			part := make([]float64, 2)
			for client := range clients {
				p, _ := e.load.Route(&workload.Request{Client: client, Process: -1})
				part[p] += 1.0 / clients
			}
			r := play(t, s, 0)
			all := r.Processes[0].Admitted + r.Processes[1].Admitted
			t.Logf("%s, %s: %v and %v admissions for %.3f and %.3f of the clients", limit, mode,
				r.Processes[0].Admitted, r.Processes[1].Admitted, part[0], part[1])
			for p, share := range r.Processes {
				if share.Admitted < 0.7*part[p]*all {
					t.Errorf("%s, %s: process %d has %v of the clients and %v of %v admissions", limit, mode, p, part[p], share.Admitted, all)
				}
			}
			if most := s.LimitOf().Rate * 20; all < 0.94*most {
				t.Errorf("%s, %s: %v admissions of %v", limit, mode, all, most)
			}
		}
	}
}
