package api

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

const (
	mostOpen         = 10_000 // reservations of all callers at a time
	mostOpenOfCaller = 1_000
	usualTTL         = 5 * time.Minute
	mostTTL          = time.Hour
	mostUsed         = rules.MaxHits // tokens of a Settle, of all descriptors together
)

// reservations are those that are open, by their ids. An id is known to its caller alone.
//
// The number of reservations is bounded, so that their timers and the leases that they keep alive
// are. One that is not ended in its time is spent: its job was probably done, by a caller that
// has crashed. A job that was not done would be lost tokens, and no tokens too many.
type reservations struct {
	mu    sync.Mutex
	byID  map[string]*open
	count map[string]int // by caller, with those that are being made
	all   int            // of count
}

// An open is a reservation that has not ended.
type open struct {
	reservation
	caller   string
	estimate []int
	expires  *time.Timer
}

func newReservations() *reservations {
	return &reservations{byID: map[string]*open{}, count: map[string]int{}}
}

// admit counts a reservation that is to be made, or returns the problem that there are too many.
func (s *reservations) admit(caller string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.count[caller]; n >= mostOpenOfCaller {
		return problem{Status: http.StatusTooManyRequests, retry: 1,
			Detail: fmt.Sprintf("the caller has %d reservations that are open", n)}
	}
	if s.all >= mostOpen {
		return problem{Status: http.StatusServiceUnavailable, retry: 1,
			Detail: fmt.Sprintf("the service has %d reservations that are open", s.all)}
	}
	s.count[caller]++
	s.all++
	return nil
}

// forget undoes admit.
func (s *reservations) forget(caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(caller)
}

func (s *reservations) forgetLocked(caller string) {
	s.all--
	if s.count[caller]--; s.count[caller] == 0 {
		delete(s.count, caller)
	}
}

// put opens a reservation that was admitted, and returns its id.
func (s *reservations) put(o *open, ttl time.Duration, expire func(*open)) (id string) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // which never fails
	id = base64.RawURLEncoding.EncodeToString(random[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[id] = o
	o.expires = time.AfterFunc(ttl, func() {
		if s.end(id, o.caller, nil) != nil {
			expire(o)
		}
	})
	return id
}

// end takes a reservation of a caller out, or returns nil if there is none. It stays if ready says
// so. The one to whom it is returned ends it, and nobody else.
func (s *reservations) end(id, caller string, ready func(*open) bool) *open {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.byID[id]
	if o == nil || o.caller != caller {
		return nil
	}
	if ready != nil && !ready(o) {
		return o
	}
	delete(s.byID, id)
	s.forgetLocked(caller)
	o.expires.Stop()
	return o
}

// noReservation tells a caller no more of another one's reservation than of none.
var noReservation = problem{
	Status: http.StatusNotFound,
	Detail: "the caller has no such reservation: it was settled or cancelled, its time has ended, " +
		"or another process had it",
}

// A reserved is the answer to reserve.
type reserved struct {
	ID      *string    `json:"id"` // null after a denial
	Expires *time.Time `json:"expires"`
	Result  result     `json:"result"`
}

func (a *api) reserve(w http.ResponseWriter, q *request) error {
	o, err := a.order(q, true)
	if err != nil {
		return err
	}
	name := q.caller.Name
	if err := a.open.admit(name); err != nil {
		return err
	}
	made, result, err := a.limiter.Reserve(q.Context(), o.domain, o.asks...)
	if err != nil || !result.Allowed {
		a.open.forget(name)
	}
	if err != nil {
		return err
	}
	answer := reserved{Result: resultOf(result)}
	if result.Allowed {
		if q.Context().Err() != nil { // nobody would end it
			a.open.forget(name)
			_ = made.Cancel()
			return q.Context().Err()
		}
		x := &open{reservation: made, caller: name, estimate: make([]int, len(o.asks))}
		for i, ask := range o.asks {
			x.estimate[i] = ask.Hits
		}
		ttl := time.Duration(o.ttl) * time.Second
		expires := time.Now().Add(ttl).UTC()
		id := a.open.put(x, ttl, a.forfeit)
		answer.ID, answer.Expires = &id, &expires
	}
	send(w, http.StatusOK, typeJSON, answer)
	return nil
}

// forfeit spends a reservation whose time has ended.
func (a *api) forfeit(o *open) {
	if err := o.Settle(o.estimate...); err != nil && !errors.Is(err, hybrid.ErrClosed) {
		a.log.WarnContext(context.Background(), "reservation was not settled as its time ended",
			"caller", o.caller, "error", err)
	}
}

func (a *api) settle(w http.ResponseWriter, q *request) error {
	var used []int
	err := q.json(mostBody, fields{"used": func(r reader, at string) error {
		return r.list(at, rules.MaxDescriptors, func(r reader, at string) error {
			used = append(used, 0)
			return whole(&used[len(used)-1], 0, mostUsed)(r, at)
		})
	}}, "used")
	if err != nil {
		return err
	}
	sum := int64(0)
	for _, n := range used {
		sum += int64(n)
	}
	if sum > mostUsed {
		return bad("used", fmt.Sprint(sum), "the sum is more than %d", int64(mostUsed))
	}
	fits := false
	o := a.open.end(q.PathValue("id"), q.caller.Name, func(o *open) bool {
		fits = len(used) == len(o.estimate)
		return fits
	})
	if o == nil {
		return noReservation
	}
	if !fits {
		return bad("used", "", "the list has %d numbers for %d descriptors", len(used), len(o.estimate))
	}
	return ended(w, o.Settle(used...))
}

func (a *api) cancel(w http.ResponseWriter, q *request) error {
	o := a.open.end(q.PathValue("id"), q.caller.Name, nil)
	if o == nil {
		return noReservation
	}
	return ended(w, o.Cancel())
}

// ended answers the end of a reservation. After an error of it another try is of no use.
func ended(w http.ResponseWriter, err error) error {
	if err != nil {
		return problem{Status: http.StatusServiceUnavailable, cause: err,
			Detail: "the reservation has ended, and its tokens count as spent"}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
