package size

import (
	"math"
	"time"
)

// What Redis, the network and a process need, measured. docs/performance.md has the commands.
const (
	// Exchange is the CPU that an exchange takes which travels alone: "What an exchange costs
	// the server". In pipelines it is about a third less (ADR 71).
	Exchange = 31 * time.Microsecond

	// Full is the part of a core that a master may use: the rest is for the unexpected.
	Full = 0.7

	// RequestBytes and ReplyBytes are those of an exchange, without the headers of TCP and
	// IP (TestRedisTakesThat).
	RequestBytes, ReplyBytes = 360, 196

	// beside is what Redis keeps of a key beside its value: its place among the keys and
	// among those that expire, bytes (TestRedisTakesThat).
	beside = 56

	// mostListed is how many holders Redis keeps in one piece of memory: 512 fields
	// (hash-max-listpack-entries) less three. Then it makes a table of them.
	mostListed = 509
	tabled     = 256_800. / 2000 // bytes of a holder in it

	// entryBytes is what a process needs for a key in use: "How it grows", at 10,000 keys and
	// more. parkedBytes is that of an idle key that still has a batch (TestParkedBytes).
	entryBytes, parkedBytes = 870, 250

	// kept is how long a process keeps a key that nobody asks for, seconds: 2, and until a
	// sweep, which takes 2.4 for all keys, comes by. parked is how long it remembers what the
	// key still has: from one to two terms of 15.
	kept, parked = 2 + 2.4/2, 1.5 * 15

	// census is how often a process asks how many there are, seconds: 10, and up to an eighth
	// sooner.
	census = 10 - 10./16
)

// listed are bytes of a key in Redis (MEMORY USAGE) by holders: docs/operations.md, "Sizes".
var listed = []struct{ holders, bytes float64 }{{1, 392}, {8, 968}, {64, 5_192}, {500, 41_032}}

// stored is what a key with so many holders takes of Redis' memory, bytes.
func stored(holders int) float64 {
	n := float64(holders)
	if holders > mostListed {
		return beside + tabled*n
	}
	i := 1
	for i < len(listed)-1 && listed[i].holders < n {
		i++
	}
	a, b := listed[i-1], listed[i]
	return beside + a.bytes + float64((max(n, 1)-a.holders)*(b.bytes-a.bytes)/(b.holders-a.holders))
}

// remembered is the chance that a process which is asked for a key so often a second has it in
// use, and that it has it parked.
func remembered(rate float64) (entry, parking float64) {
	return -math.Expm1(-rate * kept), math.Exp(-rate*kept) - math.Exp(-rate*(kept+parked))
}
