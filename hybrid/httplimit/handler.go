package httplimit

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/seed13b07268/ration/hybrid/lists"
)

// Handler returns a handler that runs next for requests that all limits admit. It may wait for a
// round trip to the store, at most hybrid.Config.Timeout, as hybrid.Limiter.TakeAll does.
//
// If a limit has an After, next gets a ResponseWriter that counts. It is an http.Flusher, an
// io.ReaderFrom, and an http.Hijacker if w is one; http.ResponseController finds what else w can
// do. Without an After it is w itself.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch g.listed(r) {
		case lists.Allow:
			next.ServeHTTP(w, r)
			return
		case lists.Deny:
			g.refuse(w, r, Outcome{Status: http.StatusForbidden})
			return
		}
		g.ask(r).serve(w, next)
	})
}

// serve runs the handler if all limits admit the request, and tells them how it ended. Whatever
// panics on the way, nothing stays reserved.
func (p *pass) serve(w http.ResponseWriter, next http.Handler) {
	g, completed := p.guard, false
	var counted *recorder
	defer func() {
		var e End // if there was no handler
		if counted != nil {
			e = counted.end(completed)
		}
		p.end(e)
	}()
	allowed, err := p.take(p.r.Context())
	switch {
	case err != nil:
		o := p.failure(p.r.Context(), err)
		if o.Status != 0 {
			g.refuse(w, p.r, o)
			return
		}
		g.config.Observe(p.r, o)
	case !allowed:
		g.refuse(w, p.r, p.denial())
		return
	case p.each != nil:
		g.config.Fields(w.Header(), p.states(false))
	}
	p.shadow()
	if len(p.ends) > 0 {
		w, counted = record(w, p.r)
	}
	next.ServeHTTP(w, p.r)
	completed = true
}

// refuse answers a request that does not pass.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, o Outcome) {
	g.config.Observe(r, o)
	o.States = slices.DeleteFunc(slices.Clone(o.States), func(s State) bool {
		return g.hidden[s.Name]
	})
	o.Denied = slices.DeleteFunc(slices.Clone(o.Denied), func(name string) bool {
		return g.hidden[name]
	})
	if len(o.States) > 0 {
		g.config.Fields(w.Header(), o.States)
	}
	if o.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(whole(o.RetryAfter), 10))
	}
	g.config.Refuse(w, r, o)
}
