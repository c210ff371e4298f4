package live

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A silence keeps in mind who has reported, so that a service which is killed is missed. One that
// ends in order says so. One that begins later on the same host is the killed one, started again
// (TestBack).
type silence struct {
	services map[string]service // by id of the service
	read     time.Time          // when reports were read last
	since    time.Time          // of when they were read without a failure for long
}

// A service is one that has reported.
type service struct {
	name  string // host/process
	heard time.Time
	began time.Time // when it was heard first
	back  bool      // it stands for one that was killed
}

// host is where it runs. A container that is started again has a process of the same number, and a
// program another one.
func (s service) host() string {
	host, _, _ := strings.Cut(s.name, "/")
	return host
}

const (
	// missedFor is for how long a service is missed, and mostServices how many are kept in mind.
	missedFor    = time.Hour
	mostServices = 256
)

// hear takes what was read at a time, and who has ended.
func (s *silence) hear(now time.Time, heard map[string]service, ended []string) {
	if now.Sub(s.read) > lateAfter {
		s.since = now
	}
	s.read = now
	for id, one := range heard {
		was, known := s.services[id]
		if one.began = one.heard; known {
			one.began, one.back = was.began, was.back
		}
		// The report of one that is silent stays for a while, also if it was forgotten.
		if known || len(s.services) < mostServices && now.Sub(one.heard) <= lateAfter {
			s.services[id] = one
		}
	}
	for _, id := range ended {
		delete(s.services, id)
	}
	for id, one := range s.services {
		if now.Sub(one.heard) > missedFor {
			delete(s.services, id)
		}
	}
	for _, id := range s.silent(now) {
		if next := s.after(s.services[id]); next != "" {
			one := s.services[next]
			one.back = true
			s.services[next] = one
			delete(s.services, id)
		}
	}
}

// after is the id of the first service that has begun on the host of one that is silent, and that
// stands for no other.
func (s *silence) after(silent service) (next string) {
	for id, one := range s.services {
		if !one.back && one.host() == silent.host() && one.began.After(silent.heard) &&
			(next == "" || one.began.Before(s.services[next].began)) {
			next = id
		}
	}
	return next
}

// silent are the ids of services that have not reported for long, in the order in which they were
// heard last. While reports cannot be read, and for a while after, nobody is.
func (s *silence) silent(now time.Time) (ids []string) {
	if now.Sub(s.read) > lateAfter || now.Sub(s.since) <= lateAfter {
		return nil
	}
	for id, one := range s.services {
		if s.read.Sub(one.heard) > lateAfter {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		x, y := s.services[a], s.services[b]
		return cmp.Or(x.heard.Compare(y.heard), strings.Compare(x.name, y.name))
	})
	return ids
}

// missed are the services that are silent, by their names.
func (s *silence) missed(now time.Time) (list []service) {
	for _, id := range s.silent(now) {
		list = append(list, s.services[id])
	}
	slices.SortStableFunc(list, func(a, b service) int { return strings.Compare(a.name, b.name) })
	return list
}
