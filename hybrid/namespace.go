package hybrid

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/seed13b07268/ration/lease"
)

// maxNamespace is the longest Config.Namespace, in bytes.
const maxNamespace = 64

// validNamespace returns an error unless s can stand before a key. It has no colon, so
// that two namespaces never have a key in common, and no braces, so that it does not
// choose the node of a Redis Cluster.
func validNamespace(s string) error {
	if len(s) > maxNamespace {
		return fmt.Errorf("hybrid: Config.Namespace %.80q is longer than %d bytes", s, maxNamespace)
	}
	for _, c := range []byte(s) {
		digit := c >= '0' && c <= '9'
		letter := c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if !digit && !letter && c != '_' && c != '-' && c != '.' {
			return fmt.Errorf("hybrid: Config.Namespace %q has other bytes than "+
				"0-9 A-Z a-z, dot, _ and -", s)
		}
	}
	return nil
}

// A namespace is a Store in which the keys of one Limiter have names of their own.
type namespace struct {
	store     Store
	prefix    string
	limiter   *Limiter
	conflicts *conflicts
}

// name is what the store calls a key. Names that begin with a zero byte are ration's own: the
// census, and what is published. A user's key that begins so has one more, so that whoever
// makes up keys is not counted as a process (TestKeysOfOurOwn).
func (s *namespace) name(key string) string {
	if s.prefix == "" && strings.HasPrefix(key, "\x00") {
		return "\x00" + key
	}
	return s.prefix + key
}

// A router is a Store whose keys are on several servers. remote.Store can tell.
type router interface {
	// Node names the server that has a key, as far as that is known. It does not block.
	Node(key string) string
}

// route tells which server has a key, or is nil if the store cannot tell. A user's key of the
// census' name may be told wrongly, which costs it time.
func (s *namespace) route() func(key string) (node string) {
	r, ok := s.store.(router)
	if !ok {
		return nil
	}
	return func(key string) string {
		if key != FleetKey {
			key = s.name(key)
		}
		return r.Node(key)
	}
}

// Exchange implements Store. The key of the census is that of all Limiters.
func (s *namespace) Exchange(ctx context.Context, calls []*lease.Call) {
	keys := make([]string, len(calls))
	for i, c := range calls {
		if keys[i] = c.Key; !s.counts(c) {
			c.Key = s.name(c.Key)
		}
	}
	p := s.limiter.guard(func() { s.store.Exchange(ctx, calls) })
	for i, c := range calls {
		c.Key = keys[i]
		if p != nil {
			c.Err = fmt.Errorf("hybrid: the Store has panicked: %w", p)
		}
		if c.Err == nil && !s.counts(c) {
			s.conflicts.look(c.Key, Limit(c.Request.Limit), Limit(c.Reply.Limit))
		}
	}
}

// counts reports whether a call is for the census.
func (s *namespace) counts(c *lease.Call) bool {
	return c.Key == FleetKey && c.Request.Holder == s.limiter.config.Process.name.ID()
}

const (
	// conflictLasts is for how long a lower limit than the declared one is in force, now
	// and then at least, when that is logged. A deployment may be shorter.
	conflictLasts = time.Minute

	// conflictGap is how long a pause may be in which none is seen.
	conflictGap = 3 * conflictLasts
)

// conflicts notices that others declare a lower limit for a key. It follows one key at a
// time, and ends with the log line. The lower limit need not be in force all the time: it
// goes whenever the other holder has no lease, and comes back with its next request.
type conflicts struct {
	limiter *Limiter

	mu          sync.Mutex
	key         string
	declared    Limit         // which was not in force
	since, last time.Duration // the first and the last time
	told        bool
}

// look compares what was declared for a key with what is in force.
func (c *conflicts) look(key string, declared, inForce Limit) {
	now := c.limiter.now()
	c.mu.Lock()
	lower := inForce != declared && inForce != Limit{}
	lasts := false
	switch {
	case c.told || !lower:
	case c.declared == Limit{} || now >= c.last+conflictGap,
		key == c.key && declared != c.declared:
		c.key, c.declared, c.since, c.last = key, declared, now, now
	case key == c.key:
		c.last = now
		lasts = now >= c.since+conflictLasts
		c.told = lasts
	}
	c.mu.Unlock()
	if lasts {
		c.limiter.driver.warn("another limit than the declared one is in force, as others "+
			"declare it: a deployment that has not ended, or two Limiters that need a "+
			"Config.Namespace",
			keyField(key), zap.Stringer("declared", declared), zap.Stringer("in force", inForce))
	}
}
