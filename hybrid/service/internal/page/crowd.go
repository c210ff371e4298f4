package page

import (
	"fmt"
	"sync"
	"time"

	"github.com/seed13b07268/ration/hybrid/service/internal/account"
)

// A crowd bounds what strangers make the audit log grow by: it only grows, and they need no account
// to fail. Of each kind of event crowdLines a minute have a line of their own. The others of that
// minute are counted, and its end has a line with their number.
type crowd struct {
	note func(account.Event) error // writes a line

	mu      sync.Mutex
	minutes map[string]*minute   // by Event.What
	named   map[string]time.Time // when a proxy was noted to name a user
	ends    sync.WaitGroup       // of minutes that have counted something
}

// A minute is the present one of a kind.
type minute struct {
	begin time.Time
	lines int
	left  int         // events without a line
	end   *time.Timer // if left is not 0
}

const (
	crowdLines = 10

	// namedLife is for how long a user whom a proxy names is not noted again, and mostNamed how
	// many such users are remembered. More of them are noted again and again, as far as crowdLines
	// go.
	namedLife = 12 * time.Hour
	mostNamed = 10_000
)

func newCrowd(note func(account.Event) error) *crowd {
	return &crowd{note: note, minutes: map[string]*minute{}, named: map[string]time.Time{}}
}

// line reports whether an event of a kind may have a line of its own. If not, it is counted.
func (c *crowd) line(what string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.freeLocked(what) {
		return true
	}
	m := c.minutes[what]
	if m.left++; m.left == 1 {
		c.ends.Add(1)
		m.end = time.AfterFunc(time.Until(m.begin.Add(time.Minute)), func() { c.endOf(what) })
	}
	return false
}

// freeLocked takes one of the lines of the minute, if there is one left.
func (c *crowd) freeLocked(what string) bool {
	m := c.minutes[what]
	if m == nil || m.left == 0 && time.Since(m.begin) >= time.Minute {
		m = &minute{begin: time.Now()}
		c.minutes[what] = m
	}
	if m.lines == crowdLines {
		return false
	}
	m.lines++
	return true
}

// endOf ends a minute that has counted something.
func (c *crowd) endOf(what string) {
	defer c.ends.Done()
	c.mu.Lock()
	m := c.minutes[what]
	delete(c.minutes, what)
	c.mu.Unlock()
	_ = c.note(account.Event{Who: "service", What: what, Detail: fmt.Sprintf(
		"%d more since %s UTC", m.left, m.begin.UTC().Format(time.TimeOnly))})
}

// first notes a user whom a proxy names, unless that was done within namedLife. One that finds no
// free line, or whose line cannot be written, is noted with a later request.
func (c *crowd) first(e account.Event) {
	if !c.begin(e) || c.note(e) == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.named, e.Who)
}

// begin reports whether the user is to be noted, and takes it for noted.
func (c *crowd) begin(e account.Event) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.named[e.Who]; ok && time.Since(at) < namedLife || !c.freeLocked(e.What) {
		return false
	}
	if len(c.named) >= mostNamed {
		clear(c.named)
	}
	c.named[e.Who] = time.Now()
	return true
}

// close writes what was counted. Nothing may be asked of the crowd any more.
func (c *crowd) close() {
	c.mu.Lock()
	var early []string
	for what, m := range c.minutes {
		if m.left > 0 && m.end.Stop() {
			early = append(early, what)
		}
	}
	c.mu.Unlock()
	for _, what := range early {
		c.endOf(what)
	}
	c.ends.Wait()
}
