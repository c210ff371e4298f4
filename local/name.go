package local

import (
	"sync/atomic"

	"github.com/seed13b07268/ration/lease"
)

// A Name is what several entries go by at their ledgers, of which each has a holder that
// lives for a request or two: all of them are one holder there. They may have no lease,
// and one that is overtaken by another of its key has failed. It is safe for concurrent use.
type Name struct {
	id  string
	seq atomic.Uint64 // of the last message
}

// NewName returns a Name with an id that nobody else has, see lease.Request.Holder.
func NewName(id string) *Name { return &Name{id: id} }

// ID is what NewName was given.
func (n *Name) ID() string { return n.id }

// sign makes q a message of the name. Nothing is lent to it, so nothing comes back.
func (n *Name) sign(q *lease.Request) {
	q.Holder, q.Seq = n.id, n.seq.Add(1)
	q.Seen = q.Seq - 1
	q.Hold = 0 // nor is anything held: what is granted has been taken
}
