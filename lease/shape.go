package lease

// A Shape is what a lease is made of. The Ledger chooses it, and the Holder acts by it.
// The long one is for calm keys (long.go).
type Shape uint8

const (
	// None is no lease: the ledger decides each request.
	None Shape = iota

	// Batch is tokens that do not refill. The holder asks again when a quarter is left, if
	// that serves a request, and when Refresh has passed. It lives for about three refreshes,
	// or for one MaxRefresh after a Refresh that is longer than that.
	Batch

	// Slice is a part of the rate, with room to save some up. The holder comes back
	// after Refresh. The rate ends soon after that. The tokens live for two refreshes
	// more, or for one MaxRefresh after a Refresh that is longer than that.
	Slice

	// LongBatch is a batch that lives for Policy.MaxHold, which is its Refresh as well.
	// The holder renews it for requests that come late in its life, or when a
	// quarter is left. If nobody uses it, it lapses.
	LongBatch

	// Block is slots. It does not refill, and jobs put back what they have taken. The holder
	// comes back after Refresh, which is soon if it has idle slots, and lives on them until
	// Expires.
	Block
)

// Refills reports whether the holder adds tokens by itself.
func (s Shape) Refills() bool { return s == Slice }

// lapses reports whether the lease is let go when nobody has used it.
func (s Shape) lapses() bool { return s == LongBatch }

// runsLow reports whether the lease is renewed when few of its tokens are left. A plain
// slice is not: it refills, and comes back soon. Nor is a block: its jobs come to an end.
func (s Shape) runsLow() bool { return s != Slice && s != Block }

// String returns the name that logs and tests print.
func (s Shape) String() string {
	return name("Shape", []string{"none", "batch", "slice", "long batch", "block"},
		int(s))
}

// A lease's rate ends a little after its Refresh, so that the rate of a crashed or
// silent holder returns early. Its tokens are missed less: they live for tokenLife
// refreshes more.
const tokenLife = 2

// tail is for how many refreshes the tokens outlive the rate. A long batch has no
// rate, and so they live for one refresh in all.
func (s Shape) tail() float64 {
	if s == LongBatch {
		return 1
	}
	return tokenLife
}
