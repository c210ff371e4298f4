package engine

import (
	"fmt"
	"testing"
)

// With Eager the first requests for keys do not wait. The promise and the account of tokens know
// what is admitted on account.
func TestEager(t *testing.T) {
	play := func(eager int) *Result {
		s := read(t, fmt.Sprintf("{duration: 20s, processes: 4, limit: 5/s, burst: 40, keys: 200, "+
			"load: {offered: 0.3}, redis: {latency: 5ms}, eager: %d}", eager))
		r := play(t, s, 0)
		checkResult(t, s, r)
		return r
	}
	without, with := play(0), play(2)
	if with.Waited > without.Waited/2 {
		t.Errorf("%d of %d requests wait, %d without", with.Waited, with.Requests, without.Waited)
	}
	if with.ExcessAllowed != without.ExcessAllowed+8 {
		t.Errorf("%v are promised, %v without", with.ExcessAllowed, without.ExcessAllowed)
	}
}
