package live

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// A report is what a service tells others of what its limits of one domain have decided since it
// began.
type report struct {
	Limiter string // hybrid.Stats.ID
	Domain  string
	Total   counts
	Rules   map[string]counts // by path: those that have counted, as far as mostReport goes
	Short   bool              // there was no room for all
	Name    string            // of the service
	Ended   bool              // it reports no more
}

// counts are a tally without the zeros at its end.
type counts []uint64

func countsOf(t tally) counts {
	n := len(t)
	for n > 0 && t[n-1] == 0 {
		n--
	}
	return slices.Clone(t[:n])
}

func (c counts) tally() (t tally) {
	copy(t[:], c)
	return t
}

const (
	// mostReport is how many bytes a report has at most, and mostReports how many domains a service
	// reports: the busiest.
	mostReport  = 4096
	mostReports = 32

	// reportEvery is how often a domain that has counted anything is reported. One that has not is
	// each reportRest, and what was told ends after reportLife. With more than fewPeers services
	// all of them report and read less often, so that what is read in a second grows no faster than
	// they do.
	reportEvery = time.Second
	reportRest  = 5 * time.Second
	reportLife  = 15 * time.Second
	fewPeers    = 10

	// peerLife is for how long what a service has told is remembered after it was last read, and
	// mostPeers how many reports are at a time.
	peerLife  = time.Minute
	mostPeers = 1024
)

// A peer is another service's part of a domain.
type peer struct {
	limiter string
	last    map[string]tally // by path; that of the domain is at ""
	short   bool
	read    time.Time
}

// sums is what services tell each other.
type sums struct {
	id      string               // of this service
	told    map[string]time.Time // by domain
	what    map[string]tally     // was told then, of all rules
	peers   map[string]*peer     // by id of the report
	failing bool
}

func newSums() sums {
	return sums{
		id: rand.Text(), told: map[string]time.Time{}, what: map[string]tally{},
		peers: map[string]*peer{},
	}
}

// exchange tells other services what this one has counted, and adds to the history what they have.
func (l *Live) exchange(ctx context.Context) {
	stats := l.limiter.Stats()
	l.ask(ctx, &l.sums.failing, "what other services count", func(ctx context.Context) error {
		if err := l.tell(ctx, stats.Domains); err != nil {
			return err
		}
		now := time.Now()
		found, known := map[string]report{}, pathsOf(stats.Domains)
		heard, ended := map[string]service{}, []string(nil)
		err := l.counters.Published(ctx, func(id string, age time.Duration, text []byte) {
			if strings.HasPrefix(id, l.sums.id) || len(text) > mostReport {
				return
			}
			var r report
			if json.Unmarshal(text, &r) != nil || r.Limiter == "" {
				return
			}
			from, _, _ := strings.Cut(id, "/")
			if at := now.Add(-age); r.Name != "" && !at.Before(heard[from].heard) {
				heard[from] = service{name: shortened(r.Name, 80), heard: at}
			}
			if r.Ended {
				ended = append(ended, from)
			}
			if known[r.Domain] != nil {
				found[id] = r
			}
		})
		if err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.hear(now, found, known)
		if l.called != "" { // this one may be one that was killed, started again
			heard[l.sums.id] = service{name: shortened(l.called, 80), heard: now}
		}
		l.silence.hear(now, heard, ended)
		return nil
	})
}

// farewell tells other services what was counted last, and that this one ends: nobody misses it. It
// goes on for up to a second after ctx has ended.
func (l *Live) farewell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	texts := map[string][]byte{}
	for _, d := range l.limiter.Stats().Domains {
		if _, told := l.sums.told[d.Domain]; told {
			texts[l.sums.id+"/"+d.Domain] = newReport(report{Name: l.called, Ended: true}, d)
		}
	}
	if err := l.counters.PublishAll(ctx, texts, reportLife); err != nil {
		l.log.Debug("live: other services do not know that this one ends", "error", err)
	}
}

// pathsOf are the paths for which a history is kept, by domain. What others call domains and rules
// besides is not kept.
func pathsOf(domains []rules.DomainStats) map[string]map[string]bool {
	all := make(map[string]map[string]bool, len(domains))
	for _, d := range domains {
		paths := make(map[string]bool, len(d.Rules)+2)
		paths[overrides], paths[byBans] = true, true
		for _, r := range d.Rules {
			paths[r.Path] = true
		}
		all[d.Domain] = paths
	}
	return all
}

// tell publishes a report of each domain that is due, all at once.
func (l *Live) tell(ctx context.Context, domains []rules.DomainStats) error {
	type due struct {
		domain rules.DomainStats
		all    tally
		sum    uint64
	}
	var list []due
	for _, d := range domains {
		one := due{domain: d}
		for _, r := range d.Rules {
			for i, n := range tallyOf(r) {
				one.all[i] += n
				one.sum += n
			}
		}
		list = append(list, one)
	}
	slices.SortStableFunc(list, func(a, b due) int { return cmp.Compare(b.sum, a.sum) })
	now, texts := time.Now(), map[string][]byte{}
	for _, one := range list[:min(len(list), mostReports)] {
		name := one.domain.Domain
		rested := now.Sub(l.sums.told[name])
		if one.all == l.sums.what[name] && rested < reportRest-reportEvery/2 {
			continue
		}
		texts[l.sums.id+"/"+name] = newReport(report{Name: l.called}, one.domain)
	}
	if len(texts) == 0 {
		return nil
	}
	if err := l.counters.PublishAll(ctx, texts, reportLife); err != nil {
		return err
	}
	for _, one := range list {
		if name := one.domain.Domain; texts[l.sums.id+"/"+name] != nil {
			l.sums.told[name], l.sums.what[name] = now, one.all
		}
	}
	for name, at := range l.sums.told {
		if now.Sub(at) > peerLife {
			delete(l.sums.told, name)
			delete(l.sums.what, name)
		}
	}
	return nil
}

// newReport is r of a domain in at most mostReport bytes. Rules that have counted most come first.
func newReport(r report, d rules.DomainStats) []byte {
	r.Limiter, r.Domain, r.Rules = d.Limiter.ID, d.Domain, map[string]counts{}
	var total tally
	moved := slices.DeleteFunc(slices.Concat(d.Rules, besides(d)), func(r rules.RuleStats) bool {
		return tallyOf(r) == tally{}
	})
	sum := func(r rules.RuleStats) (n uint64) {
		for _, m := range tallyOf(r) {
			n += m
		}
		return n
	}
	for _, rule := range moved {
		if rule.Path == byBans {
			continue
		}
		for i, n := range tallyOf(rule) {
			total[i] += n
		}
	}
	r.Total = countsOf(total)
	slices.SortStableFunc(moved, func(a, b rules.RuleStats) int { return cmp.Compare(sum(b), sum(a)) })
	empty, _ := json.Marshal(r)
	room := mostReport - len(empty)
	for _, rule := range moved {
		path, _ := json.Marshal(rule.Path)
		numbers, _ := json.Marshal(countsOf(tallyOf(rule)))
		if room -= len(path) + len(numbers) + 2; room < 0 {
			break
		}
		r.Rules[rule.Path] = countsOf(tallyOf(rule))
	}
	r.Short = len(r.Rules) < len(moved)
	text, _ := json.Marshal(r)
	return text
}

// hear adds what others have counted since they were last heard, of domains and rules that are
// known here. What one had counted before it was first heard is not known to be of any time, and is
// left out.
func (l *Live) hear(now time.Time, found map[string]report, known map[string]map[string]bool) {
	for id, r := range found {
		p := l.sums.peers[id]
		first := p == nil
		if first && len(l.sums.peers) >= mostPeers {
			continue
		}
		if first {
			p = &peer{last: map[string]tally{}}
			l.sums.peers[id] = p
		}
		last := make(map[string]tally, len(r.Rules)+1)
		d := l.history.domain(r.Domain)
		by := func(path string, c counts) tally {
			is := c.tally()
			was, told := p.last[path]
			last[path] = is
			if first || !told && p.short {
				return tally{}
			}
			return is.since(was)
		}
		total := by("", r.Total)
		l.history.put(&d.total, total)
		l.history.put(&l.history.domain(processKey(r.Limiter)).total, total)
		for path, c := range r.Rules {
			if path == "" { // no rule has it
				continue
			}
			if moved := by(path, c); known[r.Domain][path] && moved != (tally{}) {
				l.history.put(d.rule(path), moved)
			}
		}
		if r.Short { // rules may be out of one report and in the next
			maps.Copy(p.last, last)
			last = p.last
			if len(last) > mostReport {
				last = map[string]tally{"": r.Total.tally()}
			}
		}
		p.limiter, p.last, p.short, p.read = r.Limiter, last, r.Short, now
	}
	maps.DeleteFunc(l.sums.peers, func(_ string, p *peer) bool { return now.Sub(p.read) > peerLife })
}

// counted are the Limiters of others whose counts were heard lately.
func (s *sums) counted(now time.Time) map[string]bool {
	list := map[string]bool{}
	for _, p := range s.peers {
		if now.Sub(p.read) <= lateAfter {
			list[p.limiter] = true
		}
	}
	return list
}

// processKey is under what a history has a Limiter of one process. It is the name of no domain.
func processKey(limiter string) string { return "\x00" + limiter }

// pause is how long to wait until the next exchange.
func (l *Live) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	services := map[string]bool{}
	for id := range l.sums.peers {
		service, _, _ := strings.Cut(id, "/")
		services[service] = true
	}
	return min(reportEvery*time.Duration(1+len(services)/fewPeers), reportRest)
}
