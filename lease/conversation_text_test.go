package lease_test

import (
	"fmt"

	"github.com/seed13b07268/ration/lease"
)

// requestPhrases is a request without what is zero or as usual. The claim matters to a ledger that
// does not know the holder, the limit to one that has another, and what was spent where a reply
// did not arrive.
func requestPhrases(q *lease.Request, inForce lease.Limit, known bool) (w phrases) {
	w.add("%s -> ledger seq %d", q.Holder, q.Seq)
	if q.Seen != q.Seq-1 {
		w.add("seen %d", q.Seen)
	}
	w.number("got", q.Got, "")
	w.number("takes", q.Take, "")
	if q.Min != q.Take {
		w.number("at least", q.Min, "")
	}
	w.number("demand", q.Demand, "/s")
	if q.Hold > 0 {
		w.add("to reserve")
	}
	w.number("owes", q.Debt, "")
	w.number("gives", q.Give, "")
	w.number("holds", q.Held, "")
	w.number("spent", q.Used, "")
	if !known && q.Claim.Left > 0 {
		w.add("claims rate %s/s", number(q.Claim.Rate))
		w.add("burst %s for %s", number(q.Claim.Burst), millis(q.Claim.Left))
	}
	if q.Limit != inForce {
		w.add("limit %v", q.Limit)
	}
	if q.Policy.Mode == lease.PerRequest {
		if q.Policy.MaxHold > q.Policy.MaxRefresh {
			w.add("wants no slice") // but would take a calm batch
		} else {
			w.add("wants no lease")
		}
	}
	return w
}

// replyPhrases is a reply without what is zero or as usual. Its times count from when the request
// was sent.
func replyPhrases(id string, q *lease.Request, r lease.Reply, known bool) (w phrases) {
	w.add("ledger -> %s seq %d", id, r.Seq)
	if r.Stale {
		w.add("stale")
		return w
	}
	w.number("taken", r.Taken, "")
	w.number("adds", r.Add, "")
	if r.Shape != lease.None {
		w.add("%v", r.Shape)
	}
	if r.Rate > 0 {
		w.add("rate %s/s for %s", number(r.Rate), millis(r.RateUntil))
	}
	if r.Burst > 0 {
		w.add("burst %s for %s", number(r.Burst), millis(r.Expires))
		if r.Keep != r.Burst {
			w.add("keep %s", number(r.Keep))
		}
		w.add("refresh %s", millis(r.Refresh))
	} else if r.Taken == 0 {
		w.add("nothing")
	}
	if r.Window > 0 {
		w.add("window %s", millis(r.Window))
	}
	if r.RetryAfter > 0 {
		w.add("retry in %s", millis(r.RetryAfter))
	}
	for _, flag := range []struct {
		word string
		set  bool
	}{{"contended", r.Contended}, {"dry", r.Dry}} {
		if flag.set {
			w.add("%s", flag.word)
		}
	}
	if r.Limit != q.Limit {
		w.add("limit %v", r.Limit)
	}
	return w
}

func (c *conversation) showLedger() {
	v := c.ledger.View()
	if v.Limit == (lease.Limit{}) {
		c.tell("ledger knows nothing")
		return
	}
	var w phrases
	w.add("ledger %v:", v.Limit)
	w.add("pool %s", number(v.Pool))
	w.number("bursts", v.Bursts, "")
	w.number("rates", v.Rates, "/s")
	w.number("demand", v.Demand, "/s")
	if at := duration(v.At); at != c.now {
		w.add("(at the last exchange, %s)", c.stamp(at))
	}
	c.print(w)
	for _, r := range v.Holders {
		w = phrases{fmt.Sprintf("ledger knows %s seq %d", r.ID, r.Seq)}
		switch {
		case r.Ended:
			w.add("no rate any more")
		case r.Rate > 0:
			w.add("rate %s/s until %s", number(r.Rate), c.stamp(duration(r.At+r.Until)))
		}
		if r.Burst > 0 {
			w.add("burst %s until %s", number(r.Burst), c.stamp(r.Expires()))
		} else {
			w.add("until %s", c.stamp(r.Expires()))
		}
		w.number("demand", r.Demand, "/s")
		c.print(w)
	}
}

func (c *conversation) showHolder(s *speaker) {
	l := s.holder.Lease(c.now)
	var w phrases
	w.add("%s holds %s", s.id, number(s.holder.Lease(c.now).Tokens))
	if l.Burst > 0 {
		w.add("of %s until %s", number(l.Burst), c.stamp(c.now+l.Lives))
		switch seq := s.holder.Outstanding(); {
		case l.Rate > 0 && seq != 0:
			w.add("adds nothing while seq %d is unanswered", seq)
		case l.Rate > 0 && l.Refills > 0:
			w.add("adds %s/s until %s", number(l.Rate), c.stamp(c.now+l.Refills))
		}
	}
	w.number("reserved", s.holder.Reserving(), "")
	w.number("owes", s.holder.Owed(), "")
	w.number("failures", float64(s.holder.Failures()), "")
	w.number("callers that wait:", float64(len(s.waits)), "")
	c.print(w)
}

// post puts a message on its way. The phrases describe it.
func (c *conversation) post(kind string, m message, all phrases) {
	f := c.fates[kind+" "+m.to.id]
	delete(c.fates, kind+" "+m.to.id)
	m.at = c.now + oneWay + f.late
	switch {
	case c.down:
		all.add("(store down)")
	case f.lost:
		all.add("(lost)")
	case f.late > 0:
		all.add("(late, arrives at %s)", c.stamp(m.at))
	case f.again > 0:
		all.add("(arrives again at %s)", c.stamp(m.at+f.again))
	}
	if !c.quiet || m.to.id == c.only {
		c.print(all)
	} else {
		c.unseen++
	}
	if c.down || f.lost {
		return
	}
	c.mail = append(c.mail, m)
	if f.again > 0 {
		m.at += f.again
		c.mail = append(c.mail, m)
	}
}
