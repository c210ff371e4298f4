package holds

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed13b07268/ration/hybrid/internal/foreign"
)

// Run asks the Store each Poll what became of holds, while there are some or a batch has had no
// reply lately, until ctx ends. Then it asks once more: what others have settled by then comes
// back, and what was under way is done. It returns after that: for each of up to two batches, or
// one more for each 256 calls that wait, it blocks as the Store does.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(Poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			k.flush()
			return
		case <-tick.C:
			k.poll()
		}
	}
}

// poll sends a batch if there is something to learn.
func (k *Keeper) poll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.openLocked() {
		k.flyLocked()
	}
}

// openLocked reports whether there is something to say or to learn.
func (k *Keeper) openLocked() bool {
	return len(k.mine) > 0 || len(k.acks) > 0 || time.Now().Before(k.unsure)
}

// flush waits for a batch that was sent later than all before, if there is something to learn.
func (k *Keeper) flush() {
	k.mu.Lock()
	open := k.openLocked() || k.flying
	k.mu.Unlock()
	if open {
		<-k.send(Call{Verb: Look}).done
	}
}

// time is the latest that the Store's clock may show now, or zero if that is not known.
func (k *Keeper) time() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.timeLocked()
}

func (k *Keeper) timeLocked() time.Time {
	if k.clock.IsZero() {
		return k.clock
	}
	return k.clock.Add(time.Since(k.at))
}

// send queues a call. One batch is under way at a time: what comes meanwhile goes with the next, so
// that a busy replica sends few.
func (k *Keeper) send(c Call) *pending {
	p := &pending{Call: c, done: make(chan struct{})}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queueLocked(p)
	return p
}

func (k *Keeper) queueLocked(p *pending) {
	k.queue = append(k.queue, p)
	k.flyLocked()
}

// recall drops a call that waits to be sent: behind a Store that hangs there are as many as
// callers.
func (k *Keeper) recall(p *pending) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.Index(k.queue, p); i >= 0 {
		k.queue = slices.Delete(k.queue, i, i+1)
	}
}

func (k *Keeper) flyLocked() {
	if !k.flying {
		k.flying = true
		go k.fly()
	}
}

// fly sends batches until nothing is queued.
func (k *Keeper) fly() {
	for {
		k.gather()
		b, calls := k.load()
		sent := time.Now()
		if len(calls) > 1 {
			k.sent = sent
		}
		r, err := k.call(b)
		if err == nil && len(r.Answers) != len(calls) {
			err = fmt.Errorf("%d answers to %d calls", len(r.Answers), len(calls))
		}
		if err == nil {
			// What has ended is booked before its caller hears of it.
			k.heard(r, sent)
			k.notices(r.Notices)
		} else {
			k.missed()
		}
		for i, p := range calls {
			if p.err = err; err == nil {
				p.answer = r.Answers[i]
			}
			k.answered(p)
			close(p.done)
		}
		if !k.more() {
			return
		}
	}
}

// call has the Store do a batch. A panic of its is an error: the goroutine serves all callers.
func (k *Keeper) call(b Batch) (r Reply, err error) {
	if p := foreign.Call(func() { r, err = k.c.Store.Do(context.Background(), b) }); p != nil {
		err = p
	}
	return r, err
}

// gather waits for more calls, if a batch of several was sent just now and this one is not full. A
// caller that is alone never waits.
func (k *Keeper) gather() {
	k.mu.Lock()
	full := len(k.queue) >= mostCalls
	k.mu.Unlock()
	if d := k.pace - time.Since(k.sent); d > 0 && !full {
		time.Sleep(d)
	}
}

// load takes a batch from the queue.
func (k *Keeper) load() (Batch, []*pending) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := min(len(k.queue), mostCalls)
	calls := k.queue[:n:n]
	k.queue = k.queue[n:]
	b := Batch{Home: k.home, Acks: k.acks}
	for _, p := range calls {
		b.Calls = append(b.Calls, p.Call)
	}
	return b, calls
}

// more reports whether another batch is to be sent, by the same goroutine.
func (k *Keeper) more() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lookLocked()
	k.flying = len(k.queue) > 0
	return k.flying
}

// heard learns the time, and that acknowledgements have arrived.
func (k *Keeper) heard(r Reply, sent time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clock, k.at, k.acks = r.Now, sent, nil
}

// missed has the Store asked for a while: a batch without a reply may be done, or be done soon, and
// leave a notice that nobody waits for (TestLostSettle).
func (k *Keeper) missed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unsure = time.Now().Add(k.patience)
}

// lookLocked asks, once in a Poll, for holds of which the Store should have told an end, or of
// which it is not known whether they were written. Of many some wait longer than a Poll to be asked
// for, and are not asked for again meanwhile (TestManyLooks).
func (k *Keeper) lookLocked() {
	if k.clock.Sub(k.looked).Abs() < k.gap { // a Store's clock may be set back
		return
	}
	k.looked = k.clock
	for _, l := range k.mine {
		if !l.looking && l.dueLocked(k.clock) {
			l.looking = true
			k.queue = append(k.queue, &pending{
				Call: Call{Verb: Look, Name: l.Name}, done: make(chan struct{}),
			})
		}
	}
}

// dueLocked reports whether a hold that was sent has ended, or is not to come into being any more.
func (l *local) dueLocked(now time.Time) bool {
	return !l.Until.IsZero() && l.Until.Before(now) && (!l.certain || l.ends.Before(now))
}

// answered learns from an answer about a hold of this home. One that the Store has lost ends as if
// nobody had settled it; one that it never had, gives all back.
func (k *Keeper) answered(p *pending) {
	k.mu.Lock()
	l := k.mine[p.Name]
	if l == nil {
		k.mu.Unlock()
		return
	}
	looked := p.Verb == Look
	l.looking = l.looking && !looked
	if p.err == nil && p.answer.Token == l.Token {
		l.certain, l.ends = true, p.answer.Ends
		k.mu.Unlock()
		return
	}
	lost := looked && p.err == nil && l.dueLocked(k.clock) && k.forgetLocked(l)
	var used []int
	if l.certain && l.Spent {
		used = l.Estimate
	}
	k.mu.Unlock()
	if lost {
		k.settle(l, used)
	}
}

// notices does what they say, and has them acknowledged with each batch until one has a reply. So
// no reply has a notice again.
func (k *Keeper) notices(list []Notice) {
	for _, n := range list {
		k.mu.Lock()
		k.acks = append(k.acks, n.ID())
		l := k.mine[n.Name]
		// One that was never sent is another hold than the notice's (TestStrayNotice).
		ended := n.Kind != Charge && l != nil && !l.Until.IsZero() && k.forgetLocked(l)
		k.mu.Unlock()
		if ended {
			k.end(l, n)
		}
		if n.Kind == Charge {
			k.book("charge", n.Name, func() error { return k.c.Charge(n.Content, n.Used) })
		}
	}
}

// end does at home what a notice says.
func (k *Keeper) end(l *local, n Notice) {
	within := slices.Clone(n.Used)
	for i, most := range l.Estimate[:min(len(l.Estimate), len(within))] {
		if n.Kind == Return {
			within[i] = min(within[i], most)
		}
	}
	k.settle(l, within)
	if n.Kind != Expired && l.learn != nil {
		k.book("learn", l.Name, func() error {
			l.learn(n.Used)
			return nil
		})
	}
}
