package lease

import "time"

// A spending is how a Holder spends its lease: what differs by the kind of limit, with the state
// that only the kind needs. A Holder is what all kinds have in common. It calls the methods when it
// has come to h.at. The ledger's half is a division.
type spending interface {
	// busy is how many spent tokens take up room in the lease.
	busy() float64
	// spend counts n tokens as spent.
	spend(h *Holder, n float64)
	// unspend makes up to n spent tokens free again, and returns how many.
	unspend(h *Holder, n float64) float64
	// untold reports whether of what was spent something comes back that the ledger may not know.
	untold(h *Holder) bool
	// reserve is called when tokens were reserved.
	reserve(h *Holder)
	// pass frees the tokens that come back by themselves until h.at.
	pass(h *Holder)
	// drop forgets what was spent, as the lease has ended. It returns how many tokens are lost
	// beside h.tokens.
	drop() float64

	// handBack returns how many tokens the next request hands back beside tokens above h.keep.
	// It may lower h.keep.
	handBack(h *Holder, quit bool) float64
	// tell completes a request: the demand, the policy to ask with, and what comes back if there
	// is no debt.
	tell(h *Holder, now time.Duration, q Request, quit bool) Request
	// answer reads what a reply tells this kind alone. It returns how many of the tokens taken
	// for callers may be spent.
	answer(h *Holder, now time.Duration, r Reply) float64
	// again is when to ask after a denial for retry, by a reply whose window ends after window.
	again(h *Holder, now, retry, window time.Duration) time.Duration
	// count counts tokens that were offered.
	count(tokens float64)
	// returned is called when callers have returned tokens, or an answer has brought some.
	returned(h *Holder, now time.Duration)
	// forsaken is for a caller that has gone from the queue.
	forsaken(h *Holder, now time.Duration)
	// fence is Holder.Fence.
	fence() uint64

	forecast
}

// A forecast is what a spending says of tokens that the holder does not have.
type forecast interface {
	// boundary is when held tokens, and a denial, end for all holders.
	boundary() boundary
	// left is how many tokens the pool has now.
	left(h *Holder, now time.Duration) float64
	// free is when n tokens more can be spent though nothing is refilled, or never.
	free(h *Holder, n float64) time.Duration
	// comes is the least time until there are n tokens for this holder, or below 0 if nobody
	// knows.
	comes(h *Holder, now time.Duration, n float64) time.Duration
	// retryAfter is Holder.RetryAfter.
	retryAfter(h *Holder, now time.Duration, n float64) time.Duration
	// resetAfter is Holder.ResetAfter.
	resetAfter(h *Holder, now time.Duration) time.Duration
}

// A plainHolder has what most spendings have in common.
type plainHolder struct{}

func (plainHolder) busy() float64                                      { return 0 }
func (plainHolder) spend(h *Holder, n float64)                         { h.spent += n }
func (plainHolder) untold(*Holder) bool                                { return false }
func (plainHolder) reserve(*Holder)                                    {}
func (plainHolder) pass(*Holder)                                       {}
func (plainHolder) drop() float64                                      { return 0 }
func (plainHolder) handBack(*Holder, bool) float64                     { return 0 }
func (plainHolder) answer(_ *Holder, _ time.Duration, r Reply) float64 { return r.Taken }
func (plainHolder) count(float64)                                      {}
func (plainHolder) returned(*Holder, time.Duration)                    {}
func (plainHolder) forsaken(*Holder, time.Duration)                    {}
func (plainHolder) boundary() boundary                                 { return boundary{never, never} }
func (plainHolder) free(*Holder, float64) time.Duration                { return never }
func (plainHolder) fence() uint64                                      { return 0 }

// unspend: no more tokens come back than were spent since the last answer, and than there is room
// for. A request tells what is held, and the room of spent tokens may be lent to others.
func (s plainHolder) unspend(h *Holder, n float64) float64 {
	if !h.running {
		return 0
	}
	n = max(min(n, h.spent, h.burst-h.all()), 0)
	h.spent -= n
	h.tokens += n
	h.peak = max(h.peak, h.all())
	return n
}

func (s plainHolder) tell(h *Holder, now time.Duration, q Request, quit bool) Request {
	backlog := h.backlog(now)
	q.Demand = min(h.talk.asked+backlog, MaxRate)
	q.Policy = h.wish(backlog, quit)
	return q
}

func (plainHolder) again(_ *Holder, now, retry, _ time.Duration) time.Duration { return now + retry }

func (plainHolder) left(h *Holder, now time.Duration) float64 {
	p := &h.pool
	return max(min(p.Level+p.flowed(now), p.Room), p.Level) // a lowered limit leaves no room
}

func (plainHolder) retryAfter(h *Holder, now time.Duration, n float64) time.Duration {
	_, firm, first := h.before(h.Asking())
	return h.soonest(now, h.Asking(), firm, first, n)
}
