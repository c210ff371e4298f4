package book

import (
	"fmt"
	"sync"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// Seen is what a process has read of a book. A store that was restarted without persistence,
// restored from a backup, or followed by a replica that was behind, has lost changes: rules that
// are in force would go, silently. The zero value has read nothing. It is safe for concurrent
// use.
type Seen struct {
	mu     sync.Mutex
	newest map[string]head
}

// A head is the newest revision of a domain.
type head struct {
	version int64
	deleted bool
	saved   time.Time
}

// Accept remembers the newest revisions of all domains, or returns an error if a domain whose
// rules were read before is missing or older than it was. Such a domain is accepted again once
// it is saved or deleted anew, as that is a later decision: its version is as high as the one
// that was read, or its time is later.
func (s *Seen) Accept(newest []rules.Revision) error {
	heads := make(map[string]head, len(newest))
	for _, r := range newest {
		heads[r.Domain] = head{r.Version, r.Text == nil, r.Time}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for domain, was := range s.newest {
		is, known := heads[domain]
		switch {
		case !known && was.deleted:
		case !known:
			return fmt.Errorf("domain %.300q was read at version %d and is gone without a deletion",
				domain, was.version)
		case is.version < was.version && !is.saved.After(was.saved):
			return fmt.Errorf("domain %.300q was read at version %d and is back at %d",
				domain, was.version, is.version)
		}
	}
	s.newest = heads
	return nil
}
