package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// errStalled says that nothing could be judged.
var errStalled = fmt.Errorf("the machine stalls for %v in each window of %v", stall, window)

// A scene is arrivals of all classes, a third each, whose demand moves between the processes each
// second: 0.7 of a class come to one process, 0.1 to each other one.
type scene struct {
	seed       uint64
	load       float64 // part of the limit
	warm, time time.Duration
	addr       string
	names      string // what no other scene calls its keys
}

// An arrival is a request of a class.
type arrival struct {
	at    time.Duration // since the scene began
	class int
}

// arrivals are by process and class.
func (s *scene) arrivals() (all [processes][][]arrival) {
	rng := rand.New(rand.NewPCG(s.seed, 1))
	for p := range all {
		all[p] = make([][]arrival, len(classes))
	}
	for class := range classes {
		mean := float64(len(classes)) / (s.load * rate) * 1e9
		for at := time.Duration(0); ; {
			at += time.Duration(rng.ExpFloat64() * mean)
			if at >= s.warm+s.time {
				break
			}
			p := (int(at/time.Second) + class) * 3 % processes
			if x := rng.Float64(); x >= 0.6 {
				p = int((x - 0.6) / 0.1)
			}
			all[p][class] = append(all[p][class], arrival{at, class})
		}
	}
	return all
}

// calmest measures until two thirds of the windows are judged, three times at most. The measurement
// with the most of them counts.
func (s *scene) calmest(ctx context.Context) (best []row, err error) {
	most := 0
	for try := range 3 {
		s.names = fmt.Sprintf("load-%v-%d", s.load, try)
		rows, err := s.measure(ctx)
		if err != nil {
			return nil, err
		}
		if rows[0].windows > most {
			best, most = rows, rows[0].windows
		}
		if most*3 >= s.windows()*2 {
			return best, nil
		}
	}
	if most == 0 {
		return nil, errStalled
	}
	return best, nil
}

// measure plays the scene for all designs at once. It returns a row for each.
func (s *scene) measure(ctx context.Context) (rows []row, err error) {
	arrivals := s.arrivals()
	games := make([]game, len(designs))
	var group sync.WaitGroup
	defer func() {
		for i := range games {
			games[i].close()
		}
	}()
	for i := range games {
		if err := games[i].open(i, s); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	for i := range games {
		games[i].play(ctx, &group, s, start, arrivals)
	}
	select {
	case <-ctx.Done():
	case <-time.After(s.warm):
	}
	for i := range games {
		games[i].warmed = games[i].exchanges()
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	calm := s.calm(games)
	for i := range games {
		rows = append(rows, games[i].row(s, arrivals, calm))
	}
	return rows, nil
}

// A game is a scene that a design plays.
type game struct {
	design   *design
	fleet    []*process
	warmed   uint64            // exchanges before the scene counts
	admitted [][]admissions    // by process and class
	late     [][]time.Duration // by process and class and by window, the most that one came late
}

// An admission is when a request was due, and when it was asked for and answered.
type admission struct{ at, asked, done time.Duration }

type admissions []admission

func (g *game) open(i int, s *scene) error {
	d := &designs[i]
	g.design = d
	for range processes {
		process, err := d.open(s.addr, fmt.Sprintf("%s-%d", s.names, i))
		if err != nil {
			return err
		}
		g.fleet = append(g.fleet, process)
		g.admitted = append(g.admitted, make([]admissions, len(classes)))
	}
	for range processes * len(classes) {
		g.late = append(g.late, make([]time.Duration, s.windows()))
	}
	return nil
}

func (g *game) close() {
	for _, p := range g.fleet {
		p.close()
	}
}

func (g *game) exchanges() (n uint64) {
	for _, p := range g.fleet {
		n += p.limiter.Stats().Exchanges
	}
	return n
}

// play offers the arrivals of each process and class from a goroutine of its own.
func (g *game) play(
	ctx context.Context, group *sync.WaitGroup, s *scene, start time.Time,
	all [processes][][]arrival,
) {
	for p := range all {
		for class, arrivals := range all[p] {
			take, into := g.fleet[p].take[class], &g.admitted[p][class]
			late := g.late[p*len(classes)+class]
			group.Go(func() {
				for _, a := range arrivals {
					time.Sleep(time.Until(start.Add(a.at)))
					if ctx.Err() != nil {
						return
					}
					asked := time.Since(start)
					if i, ok := s.window(a.at); ok {
						late[i] = max(late[i], asked-a.at)
					}
					if take() {
						*into = append(*into, admission{a.at, asked, time.Since(start)})
					}
				}
			})
		}
	}
}
