//go:build linux || darwin

package changes

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/redisrules"
	"github.com/seed13b07268/ration/remote"
)

// workerVariable makes the test binary a worker.
const workerVariable = "RATION_CHANGES_WORKER"

const (
	domain = "shop"
	name   = "changes" // of the book
)

// orders are what a worker is told on its standard input, as JSON.
type orders struct {
	Addr    string
	Seed    uint64
	Offered []float64 // requests/s for each key
}

// clock is the time that all processes of the machine share.
func clock() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

type kind uint8

const (
	admitted kind = iota
	denied
	failed  // no verdict
	changed // the rules in force are those of version n
	stalled // the process did not run
)

// A record is what a process tells.
type record struct {
	before, after time.Duration
	kind          kind
	key           uint8
	n             uint32 // the rate of the limit, or the version
}

const recordSize = 22

func (r record) write() {
	b := binary.LittleEndian.AppendUint64(nil, uint64(r.before))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.after))
	b = binary.LittleEndian.AppendUint32(append(b, byte(r.kind), r.key), r.n)
	if _, err := os.Stdout.Write(b); err != nil {
		os.Exit(1) // the parent has gone
	}
}

func parseRecord(b []byte) record {
	return record{
		before: time.Duration(binary.LittleEndian.Uint64(b)),
		after:  time.Duration(binary.LittleEndian.Uint64(b[8:])),
		kind:   kind(b[16]), key: b[17], n: binary.LittleEndian.Uint32(b[18:]),
	}
}

// work asks until standard input, or the process, ends.
func work() error {
	signal.Ignore(os.Interrupt) // a terminal tells all processes: it is for the parent to act on
	input := json.NewDecoder(os.Stdin)
	var o orders
	if err := input.Decode(&o); err != nil {
		return fmt.Errorf("orders: %w", err)
	}
	book, err := redisrules.New(redis.NewClient(remote.Options(o.Addr)), name)
	if err != nil {
		return err
	}
	l, err := rules.New(remote.New(redis.NewClient(remote.Options(o.Addr))), book, rules.Config{
		Limiter: hybrid.Config{Outage: hybrid.Deny},
	})
	if err != nil {
		return err
	}
	go watch(l)
	for key, offered := range o.Offered {
		go ask(l, uint8(key), offered, rand.New(rand.NewPCG(o.Seed, uint64(key))))
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// ask asks for a key at its pace.
func ask(l *rules.Limiter, key uint8, offered float64, random *rand.Rand) {
	const late = 100 * time.Millisecond // requests that could not be made in time are not made
	descriptor := rules.Of("key", fmt.Sprint(key))
	for next := clock(); ; {
		next = max(next+time.Duration(random.ExpFloat64()/offered*1e9), clock()-late)
		if d := next - clock(); d > 0 {
			<-time.After(d)
		}
		r := record{key: key, before: clock()}
		result, err := l.Take(context.Background(), domain, descriptor)
		switch r.after = clock(); {
		case err != nil || result.Each[0].State != rules.Limited ||
			result.Each[0].Decision.Source == hybrid.OutagePolicy:
			r.kind = failed
		case !result.Allowed:
			r.kind = denied
		}
		if r.kind != failed {
			r.n = uint32(result.Each[0].Decision.Limit.Rate)
		}
		r.write()
	}
}

// watch tells of rules that come into force, and when the process does not run.
func watch(l *rules.Limiter) {
	const tick, notable = 2 * time.Millisecond, 10 * time.Millisecond
	var seen *rules.Rules
	last := clock()
	for range time.Tick(tick) {
		now := clock()
		if now-last > notable {
			record{before: last, after: now, kind: stalled}.write()
		}
		last = now
		if r := l.Rules(); r != seen {
			seen = r
			d, _ := r.Domain(domain)
			var version uint32
			if _, err := fmt.Sscanf(d.Rules[0].Name, "v%d", &version); err == nil {
				record{before: now, after: now, kind: changed, n: version}.write()
			}
		}
	}
}
