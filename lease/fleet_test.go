package lease_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// fleet drives one Ledger and the Holders of many processes through virtual
// time: Poisson arrivals, a network that delays, loses and repeats, crashes,
// and beside it an ideal central bucket that sees the same arrivals.
type fleet struct {
	name    string
	limit   lease.Limit
	policy  lease.Policy
	procs   int
	offered float64 // in units of the limit's Rate
	skew    float64 // Zipf exponent over processes
	cost    float64 // tokens of each request, 0 is 1

	rtt, timeout time.Duration
	even         bool // each way takes half of rtt
	lose, repeat float64
	crashes      float64       // per second
	flush        time.Duration // when the ledger's state is lost, 0 never
	moves        time.Duration // how often the hot process changes, 0 never
	period       time.Duration // of on/off traffic, 0 always on; the processes' phases are spread evenly
	on           time.Duration // the part of it that is on
	together     bool          // all processes are on at the same time
	duration     time.Duration

	// workers of each process, if there are any, are all the load: each thinks,
	// waits until it is served, and thinks again.
	workers int
	think   time.Duration // mean
	later   time.Duration // by so much each process begins after the one before
}

// outcome is what a run measured.
type outcome struct {
	mean, util, jainAccepted, jainIdeal, calls, excess float64
}

func (f fleet) run(seed uint64) outcome { return f.sim(seed).outcome() }

func (f fleet) sim(seed uint64) *simulation {
	s := f.begin(seed)
	s.play(f.duration)
	return s
}

// begin is the fleet before anything happens.
func (f fleet) begin(seed uint64) *simulation {
	f.cost = max(f.cost, 1)
	s := &simulation{
		fleet: f, rng: rand.New(rand.NewPCG(seed, 1)), ledger: new(lease.Ledger),
		ideal: bucket{limit: f.limit, tokens: float64(f.limit.Burst)},
		spent: bucket{limit: f.limit},
	}
	if f.workers > 0 {
		s.resolved = func(p *process, _ *lease.Waiter) { s.work(p) }
	}
	var sum float64
	for i := range f.procs {
		p := &process{index: i}
		if !f.together {
			p.phase = f.period * time.Duration(i) / time.Duration(f.procs)
		}
		s.procs = append(s.procs, p)
		s.start(s.procs[i])
		sum += math.Pow(float64(i+1), -f.skew)
	}
	for i := range f.procs {
		s.rates = append(s.rates, f.offered*f.limit.Mean()/f.cost*math.Pow(float64(i+1), -f.skew)/sum)
		if f.workers == 0 {
			s.arrive(s.procs[i])
		}
		for range f.workers {
			s.after(time.Duration(i)*f.later, func() { s.work(s.procs[i]) })
		}
	}
	if f.crashes > 0 {
		s.crash()
	}
	if f.flush > 0 {
		s.after(f.flush, func() { s.ledger = new(lease.Ledger) })
	}
	return s
}

// play lets happen what does until then.
func (s *simulation) play(until time.Duration) {
	for len(s.events) > 0 && s.events[0].at <= until {
		e := s.pop()
		s.now = e.at
		e.do()
	}
}

// join adds a process with so many requests a second.
func (s *simulation) join(rate float64) *process {
	p := &process{index: len(s.procs)}
	s.procs, s.rates = append(s.procs, p), append(s.rates, rate)
	s.start(p)
	s.arrive(p)
	return p
}

func (s *simulation) outcome() outcome {
	var o outcome
	var admitted, ideal, offered float64
	var accepted, fair []float64
	for _, p := range s.procs {
		admitted += p.admitted
		ideal += p.ideal
		offered += p.offered
		accepted = append(accepted, p.admitted/p.offered)
		fair = append(fair, p.admitted/p.ideal)
	}
	o.util = admitted / ideal
	o.mean = admitted / (s.limit.Mean() * s.duration.Seconds())
	o.jainAccepted, o.jainIdeal = jain(accepted), jain(fair)
	o.calls = float64(s.calls) / offered
	o.excess = s.excess
	return o
}

// jain is gauge.Jain: the tests of this package stand alone, as TestMutations copies them.
func jain(x []float64) float64 {
	var sum, squares float64
	for _, v := range x {
		sum += v
		squares += v * v
	}
	return sum * sum / (float64(len(x)) * squares)
}

type process struct {
	index                    int
	holder                   *lease.Holder
	life                     int // counts restarts
	phase                    time.Duration
	offered, admitted, ideal float64
	woken                    time.Duration
	byClass                  [lease.MaxClasses]float64 // admitted
}

type simulation struct {
	fleet
	rng    *rand.Rand
	now    time.Duration
	events []event
	order  int

	ledger *lease.Ledger
	procs  []*process
	rates  []float64
	ideal  bucket
	spent  bucket // level of what was admitted; above Burst it is excess
	excess float64
	calls  int
	polls  int
	waits  int // requests that waited for an exchange
	starts int
	stuck  time.Duration // until then the ledger answers nobody

	resolved func(p *process, w *lease.Waiter) // is told who waits no longer, unless nil
}

// bucket is a plain token bucket, and, filled from the other end, a meter of
// the worst window: the level of a leaky bucket is the largest excess of any
// window that ends now over Rate*T. Or it is a quota, of the window that now is in, or a
// sliding window.
type bucket struct {
	limit  lease.Limit
	tokens float64
	at     time.Duration
	window float64 // when that began
	log    slidingLog
}

// slidingLog is what was admitted in the last Window of a sliding window, by time.
type slidingLog []admission

type admission struct {
	at time.Duration
	n  float64
}

// leave forgets what is not of the Window before now, and returns its tokens.
func (l *slidingLog) leave(now, window time.Duration) (tokens float64) {
	i := 0
	for i < len(*l) && (*l)[i].at <= now-window {
		tokens += (*l)[i].n
		i++
	}
	*l = (*l)[i:]
	return tokens
}

// turns reports whether another window of a quota has begun.
func (b *bucket) turns(now time.Duration) bool {
	if b.limit.Kind != lease.KindQuota {
		return false
	}
	start, _ := lease.Bounds(b.limit, now)
	turns := start != b.window
	b.window = start
	return turns
}

func (b *bucket) take(now time.Duration, n float64) bool {
	if b.turns(now) {
		b.tokens = float64(b.limit.Burst)
	}
	b.tokens = min(b.tokens+b.limit.Rate*(now-b.at).Seconds()+b.log.leave(now, b.limit.Window),
		float64(b.limit.Burst))
	b.at = now
	if b.tokens < n {
		return false
	}
	b.tokens -= n
	b.note(now, n)
	return true
}

func (b *bucket) pour(now time.Duration, n float64) float64 {
	if b.turns(now) {
		b.tokens = 0
	}
	b.tokens = max(b.tokens-b.limit.Rate*(now-b.at).Seconds()-b.log.leave(now, b.limit.Window), 0) + n
	b.at = now
	b.note(now, n)
	return b.tokens
}

// note logs an admission of a sliding window.
func (b *bucket) note(now time.Duration, n float64) {
	if b.limit.Kind == lease.KindSliding {
		b.log = append(b.log, admission{now, n})
	}
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

func (e event) before(x event) bool { return e.at < x.at || e.at == x.at && e.order < x.order }

func (s *simulation) after(d time.Duration, do func()) {
	s.order++
	s.events = append(s.events, event{s.now + d, s.order, do})
	for i := len(s.events) - 1; i > 0 && s.events[i].before(s.events[(i-1)/2]); i = (i - 1) / 2 {
		s.events[i], s.events[(i-1)/2] = s.events[(i-1)/2], s.events[i]
	}
}

func (s *simulation) pop() event {
	top := s.events[0]
	n := len(s.events) - 1
	s.events[0], s.events[n] = s.events[n], event{}
	s.events = s.events[:n]
	for i := 0; ; {
		child := 2*i + 1
		if child >= n {
			return top
		}
		if child+1 < n && s.events[child+1].before(s.events[child]) {
			child++
		}
		if !s.events[child].before(s.events[i]) {
			return top
		}
		s.events[i], s.events[child] = s.events[child], s.events[i]
		i = child
	}
}

func (s *simulation) start(p *process) {
	s.starts++
	p.life++
	p.holder = lease.NewHolder(fmt.Sprintf("p%d-%d", p.index, s.starts), s.limit, &s.policy, s.rng.Uint64())
}

func (s *simulation) crash() {
	s.after(s.exponential(s.crashes), func() {
		s.start(s.procs[s.rng.IntN(len(s.procs))])
		s.crash()
	})
}

func (s *simulation) exponential(rate float64) time.Duration {
	return time.Duration(s.rng.ExpFloat64() / rate * 1e9)
}

// arrive schedules the next request of p.
func (s *simulation) arrive(p *process) {
	rank := p.index
	if s.moves > 0 {
		rank = (p.index + int(s.now/s.moves)) % len(s.procs)
	}
	rate := s.rates[rank]
	wait := s.exponential(rate)
	if s.period > 0 { // let only the time that is on pass, at a higher rate
		x := s.now + p.phase
		passed := x/s.period*s.on + min(x%s.period, s.on) + time.Duration(float64(wait)*float64(s.on)/float64(s.period))
		wait = passed/s.on*s.period + passed%s.on - x
	}
	s.after(wait, func() {
		s.request(p)
		s.arrive(p)
	})
}

func (s *simulation) request(p *process) {
	p.offered++
	if s.ideal.take(s.now, s.cost) {
		p.ideal++
	}
	switch p.holder.Take(s.now, s.cost) {
	case lease.Admitted:
		s.admit(p)
	case lease.Pending:
		s.waits++
		p.holder.Enter(&lease.Waiter{N: s.cost})
	}
	if p.holder.Due(s.now) {
		s.poll(p)
	}
}

// work schedules the next request of one of p's workers.
func (s *simulation) work(p *process) {
	s.after(s.exponential(1/s.think.Seconds()), func() { s.ask(p, s.now+time.Minute) })
}

// ask is a request that waits until then, as one in Limiter.Wait does.
func (s *simulation) ask(p *process, until time.Duration) {
	p.offered++
	switch v := p.holder.Take(s.now, s.cost); {
	case v == lease.Admitted:
		s.admit(p)
		s.work(p)
	case v == lease.Exceeding || v == lease.Denied && s.now+p.holder.RetryAfter(s.now, s.cost) > until:
		s.work(p)
	default:
		p.holder.Enter(&lease.Waiter{N: s.cost, Until: until})
	}
	if p.holder.Due(s.now) {
		s.poll(p)
	}
}

func (s *simulation) admit(p *process) {
	p.admitted++
	s.excess = max(s.excess, s.spent.pour(s.now, s.cost)-float64(s.limit.Burst))
}

// poll does the driver's duties after anything happened to p's holder.
func (s *simulation) poll(p *process) {
	s.polls++
	r := p.holder.Ready(s.now)
	for _, w := range r.Resolved {
		if w.Verdict == lease.Admitted {
			p.byClass[w.Class]++
			s.admit(p)
		}
		if s.resolved != nil {
			s.resolved(p, w)
		}
	}
	if r.Ask {
		q, _ := p.holder.Request(s.now)
		s.send(p, q)
		return
	}
	if wake := r.Wake; wake < math.MaxInt64 && wake != p.woken {
		p.woken = wake
		life := p.life
		s.after(max(wake-s.now, 0), func() {
			if p.life == life && p.woken == wake {
				p.woken = 0
				s.poll(p)
			}
		})
	}
}

// oneWay is half a round trip: half of it fixed, half exponential.
func (s *simulation) oneWay() time.Duration {
	if s.even {
		return s.rtt / 2
	}
	return s.rtt/4 + time.Duration(s.rng.ExpFloat64()*float64(s.rtt)/4)
}

func (s *simulation) send(p *process, q lease.Request) {
	s.calls++
	life := p.life
	if err := q.Validate(); err != nil {
		panic(err)
	}
	deliver := func() {
		r := s.ledger.Exchange(s.now, q)
		if s.rng.Float64() >= s.lose {
			s.after(s.oneWay(), func() {
				if p.life == life {
					p.holder.Handle(s.now, r)
					s.poll(p)
				}
			})
		}
	}
	if s.rng.Float64() >= s.lose {
		s.after(max(s.oneWay(), s.stuck-s.now), deliver)
	}
	if s.rng.Float64() < s.repeat {
		s.after(s.oneWay()+s.oneWay(), deliver)
	}
	s.after(s.timeout, func() {
		if p.life == life && p.holder.Outstanding() == q.Seq {
			p.holder.Fail(s.now)
			s.poll(p)
		}
	})
}

// spread returns the mean of a measure over runs, and its range as text.
func spread(runs []outcome, of func(outcome) float64) (mean float64, text string) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, r := range runs {
		x := of(r)
		mean += x / float64(len(runs))
		lo, hi = min(lo, x), max(hi, x)
	}
	return mean, fmt.Sprintf("%.4f-%.4f", lo, hi)
}
