package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid/holds"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/reservations"
)

const (
	usualTTL = 5 * time.Minute
	mostUsed = rules.MaxHits // tokens of a Settle, of all descriptors together
)

// unsettled are what a reservation counts as that nobody settles.
var unsettled = map[string]bool{"spent": true, "returned": false}

// A reserved is the answer to reserve.
type reserved struct {
	ID      *string         `json:"reservation_id"` // null after a denial
	Expires *time.Time      `json:"expires"`
	Result  json.RawMessage `json:"result"`

	Estimate int `json:"estimate,omitzero"` // if one was made
}

func (a *api) reserve(w http.ResponseWriter, q *request) error {
	o, err := a.order(q, true)
	if err != nil {
		return err
	}
	made, err := a.holds.Reserve(q.Context(), reservations.Order{
		Owner: q.caller.Name, ID: o.id,
		Content: reservations.Content{
			Domain: o.domain, Asks: o.asks, TTL: o.ttl, Spent: o.spent, Estimate: o.estimate,
		},
	}, func(r rules.Result, estimate int) (string, error) {
		text, err := json.Marshal(resultOf(r))
		return fmt.Sprintf("%d %s", estimate, text), err
	})
	if err != nil {
		return heldProblem(err)
	}
	estimate, text, _ := strings.Cut(made.Answer, " ")
	answer := reserved{Result: json.RawMessage(text)}
	if answer.Estimate, err = strconv.Atoi(estimate); err != nil {
		return fmt.Errorf("answer of a reservation: %w", err)
	}
	if made.ID != "" {
		answer.ID, answer.Expires = &made.ID, new(made.Ends.UTC())
	}
	send(w, http.StatusOK, typeJSON, answer)
	return nil
}

// heldProblem is the problem of a Keeper's error, or the error.
func heldProblem(err error) error {
	for _, p := range []struct {
		err    error
		status int
		detail string
	}{
		// It tells a caller no more of another one's reservation than of none.
		{holds.ErrAbsent, http.StatusNotFound,
			"the caller has no such reservation, or it has ended more than 10 minutes ago"},
		{holds.ErrDiffers, http.StatusConflict,
			"there is another reservation of this id, or it was settled otherwise"},
		{holds.ErrOver, http.StatusConflict, "the reservation has ended"},
	} {
		if errors.Is(err, p.err) {
			return problem{Status: p.status, Detail: p.detail}
		}
	}
	switch {
	case errors.Is(err, holds.ErrFull):
		return problem{Status: http.StatusTooManyRequests, retry: 1,
			Detail: "the caller, or the service, has too many reservations that are open"}
	case errors.Is(err, holds.ErrNumbers):
		return bad("used", "", "the list has not one number for each descriptor")
	}
	return err
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
	return ended(w, a.holds.Settle(q.Context(), q.caller.Name, q.PathValue("id"), used))
}

func (a *api) cancel(w http.ResponseWriter, q *request) error {
	return ended(w, a.holds.Cancel(q.Context(), q.caller.Name, q.PathValue("id")))
}

// ended answers the end of a reservation.
func ended(w http.ResponseWriter, err error) error {
	if err != nil {
		return heldProblem(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *api) extend(w http.ResponseWriter, q *request) error {
	ttl := 0
	if err := q.json(mostBody, fields{"ttl": readTTL(&ttl)}, "ttl"); err != nil {
		return err
	}
	h, err := a.holds.Extend(q.Context(), q.caller.Name, q.PathValue("id"),
		time.Duration(ttl)*time.Second)
	if err != nil {
		return heldProblem(err)
	}
	send(w, http.StatusOK, typeJSON, map[string]any{"expires": h.Ends.UTC()})
	return nil
}

func readTTL(into *int) read { return whole(into, 1, int64(holds.MaxLife/time.Second)) }

// reservationID reads one that the caller has chosen.
func reservationID(into *string) read {
	return func(r reader, at string) error {
		err := text(into, 1, 128)(r, at)
		if err == nil && !holds.ValidID(*into) {
			return bad(at, strconv.Quote(cut(*into)), "it has other signs than letters, digits, "+
				"dots, hyphens and underscores, or begins with a dot")
		}
		return err
	}
}

// readEstimate reads how to make one.
func readEstimate(into **reservations.Estimate) read {
	return func(r reader, at string) error {
		*into = &reservations.Estimate{}
		return r.object(at, fields{
			"of":         text(&(*into).Of, 1, 128),
			"guess":      whole(&(*into).Guess, 0, rules.MaxHits),
			"max_tokens": whole(&(*into).MaxTokens, 1, rules.MaxHits),
		}, "of")
	}
}

// complete gives each descriptor without hits one, unless it is estimated.
func (o *order) complete() error {
	estimated := false
	for i := range o.asks {
		switch {
		case o.asks[i].Hits > 0:
		case o.estimate == nil:
			o.asks[i].Hits = 1
		default:
			estimated = true
		}
	}
	if o.estimate != nil && !estimated {
		return bad("estimate", "", "each descriptor has hits")
	}
	return nil
}

// readUnsettled reads what counts if nobody settles.
func readUnsettled(spent *bool) read {
	return func(r reader, at string) error {
		word := ""
		if err := text(&word, 1, shown)(r, at); err != nil {
			return err
		}
		var known bool
		if *spent, known = unsettled[word]; !known {
			return bad(at, strconv.Quote(word), "it is neither spent nor returned")
		}
		return nil
	}
}
