package hybrid

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/seed13b07268/ration/hybrid/internal/foreign"
	"github.com/seed13b07268/ration/lease"
)

// A Recording has a Limiter write down what it decides, for `sim whatif` to play again. A decision
// is a line of JSON:
//
//	{"time":"2026-11-26T10:27:24.000000001Z","key":"…","n":1,"cost":1,"verdict":"admitted"}
//
// n is the tokens asked for, and cost those that were used. Verdicts are admitted, denied and
// charged (by Charge). A request for more than the Burst is denied, and so is a Wait whose deadline
// is too near. A request for several keys is a line for each key that admits it, or for each that
// denies it. A Reservation is a line once it is settled, with the time of Reserve, and none if it
// has cost nothing. Jobs of slots, refunds, and requests that end with another error are not
// written.
type Recording struct {
	// To gets whole lines, up to 64 KiB in a Write, 0.1 s after a decision at the latest. A
	// goroutine of its own writes, one Write after the other. Up to 16,384 decisions wait for it,
	// which take up to 2 MiB beside their keys. More are lost, and so are those of a Write that
	// fails or panics: Stats.LostRecords counts them. No request waits for a Write. Close does,
	// until its ctx ends. A Writer of several Limiters must be safe for concurrent use. Default:
	// nil, and nothing is written.
	To io.Writer

	// Part is the part of all keys that is recorded, above 0 and up to 1. A key is recorded by all
	// processes or by none, as a hash of it decides. Default: 1.
	Part float64

	// Name says that lines have the names of keys. By default they have a hash of 16 hexadecimal
	// digits, the same in each process. It is not secret: it shows whether a key is one that
	// somebody guesses. A key that is not UTF-8 always has it, as JSON has no such name.
	Name bool
}

func (r Recording) resolve() (Recording, error) {
	switch {
	case r.To == nil && (r.Part != 0 || r.Name):
		return r, fmt.Errorf("hybrid: Config.Record.To is nil, with Part %v and Name %v", r.Part, r.Name)
	case r.Part == 0:
		r.Part = 1
	case !(r.Part > 0 && r.Part <= 1):
		return r, fmt.Errorf("hybrid: Config.Record.Part %v is not above 0 and up to 1", r.Part)
	}
	return r, nil
}

const (
	mostNotes   = 1 << 14 // that wait to be written
	mostText    = 1 << 16 // bytes of a Write, unless a line is longer
	recordDelay = time.Second / 10
)

// A verdict is what a line says of a request.
type verdict string

const (
	admitted verdict = "admitted"
	denied   verdict = "denied"
	charged  verdict = "charged"
)

// A note is a decision that waits to be written.
type note struct {
	at      time.Duration
	key     string
	n, cost int64
	verdict verdict
}

// A recorder takes notes of decisions, and has them written by a foreign.Book. Two lists of notes
// change places: one is filled while the other is written.
type recorder struct {
	Recording
	limiter *Limiter
	book    foreign.Book
	timer   *time.Timer // of the oldest note

	mu     sync.Mutex
	notes  []note
	posted bool // write will take the notes
	left   int  // of those that are being written
	ended  bool
	lost   uint64

	// of the goroutine that writes
	written []note
	text    []byte
	torn    bool // the last Write may have ended within a line
	warned  bool
}

// newRecorder returns nil if nothing is to be recorded.
func newRecorder(l *Limiter) *recorder {
	if l.config.Record.To == nil {
		return nil
	}
	r := &recorder{
		Recording: l.config.Record, limiter: l,
		notes: make([]note, 0, mostNotes), written: make([]note, 0, mostNotes),
	}
	r.timer = time.AfterFunc(recordDelay, r.flush)
	return r
}

// noted writes down what became of a request, if that is recorded.
func (l *Limiter) noted(q *request, allowed bool, err error) {
	if l.recorder != nil && q.n > 0 {
		l.recorder.decided(q.key, int64(q.n), allowed, q.patience > 0, err)
	}
}

// decided notes a request that came with an error, if that is a denial.
func (r *recorder) decided(key string, n int64, allowed, waits bool, err error) {
	v := denied
	switch {
	case err == nil && allowed:
		v = admitted
	case err == nil, errors.Is(err, ErrExceedsBurst):
	case waits && errors.Is(err, context.DeadlineExceeded):
	default:
		return
	}
	r.take(note{key: key, n: n, cost: n, verdict: v})
}

// records reports whether a key is recorded.
func (r *recorder) records(key string) bool {
	return r.Part == 1 || float64(hash(key)>>11) < float64(r.Part*(1<<53))
}

// take takes a note of what happens now to a key, if that is recorded.
func (r *recorder) take(n note) {
	if r.records(n.key) {
		n.at = r.limiter.now()
		r.keep(n)
	}
}

// keep keeps a note, or counts it as lost.
func (r *recorder) keep(n note) {
	r.mu.Lock()
	full := r.ended || len(r.notes) == mostNotes
	if full {
		r.lost++
	} else {
		r.notes = append(r.notes, n)
	}
	waiting := len(r.notes)
	if waiting == 1 && !full {
		r.timer.Reset(recordDelay)
	}
	r.mu.Unlock()
	if waiting == mostNotes/2 {
		r.flush()
	}
}

// hash is the same in each process. The bits of FNV-1a are mixed, since its upper ones hardly
// differ between short keys.
func hash(key string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	for range 2 {
		h = (h ^ h>>32) * 0x9e3779b97f4a7c15
	}
	return h ^ h>>32
}

// flush has the notes written soon.
func (r *recorder) flush() {
	r.mu.Lock()
	post := !r.posted && !r.ended && len(r.notes) > 0
	r.posted = r.posted || post
	r.mu.Unlock()
	if post {
		r.book.Post(r.write)
	}
}

// write writes all notes. What a Write fails at is lost with the notes after it.
func (r *recorder) write() {
	r.mu.Lock()
	r.notes, r.written = r.written[:0], r.notes
	r.posted, r.left = false, len(r.written)
	r.mu.Unlock()
	defer r.finish()
	began := time.Now().Add(-r.limiter.now()) // of the Limiter's clock, by the wall clock of now
	r.text = r.text[:0]
	if r.torn {
		r.text = append(r.text, '\n')
	}
	lines := 0
	for i := range r.written {
		before := len(r.text)
		r.text = r.written[i].append(r.text, began, r.Name)
		lines++
		if size := len(r.text); i < len(r.written)-1 && 2*size-before < mostText {
			continue // another one as long may follow
		}
		if !r.put(lines) {
			return
		}
		r.text, lines = r.text[:0], 0
	}
}

// finish is for the end of write, however it comes.
func (r *recorder) finish() {
	clear(r.written) // of keys
	r.mu.Lock()
	defer r.mu.Unlock()
	r.torn = r.left > 0
	r.loseLocked()
}

// put writes the text of so many lines, and reports whether that went well.
func (r *recorder) put(lines int) bool {
	r.mu.Lock()
	ended := r.ended
	r.mu.Unlock()
	if ended {
		return false
	}
	_, err := r.To.Write(r.text)
	if err != nil && !r.warned {
		r.warned = true
		r.limiter.driver.warn("recording: decisions are not written", zap.Error(err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && !r.ended {
		r.left -= lines
	}
	return err == nil
}

// loseLocked counts what is left of the notes that are being written as lost.
func (r *recorder) loseLocked() {
	r.lost += uint64(r.left)
	r.left = 0
}

// append appends the line of a note.
func (n *note) append(text []byte, began time.Time, named bool) []byte {
	text = append(text, `{"time":"`...)
	text = began.Add(n.at).UTC().AppendFormat(text, time.RFC3339Nano)
	text = append(text, `","key":`...)
	if named && utf8.ValidString(n.key) {
		key, _ := json.Marshal(n.key) // of a string it cannot fail
		text = append(text, key...)
	} else {
		text = fmt.Appendf(text, `"%016x"`, hash(n.key))
	}
	text = strconv.AppendInt(append(text, `,"n":`...), n.n, 10)
	text = strconv.AppendInt(append(text, `,"cost":`...), n.cost, 10)
	text = append(append(text, `,"verdict":"`...), n.verdict...)
	return append(text, "\"}\n"...)
}

// close has the last notes written, until ctx ends. Nothing is written once it has returned.
func (r *recorder) close(ctx context.Context) error {
	if r == nil {
		return nil
	}
	r.timer.Stop()
	r.flush()
	err := r.book.Close(ctx)
	r.mu.Lock()
	r.ended = true
	r.loseLocked()
	r.lost += uint64(len(r.notes))
	r.notes = nil
	r.mu.Unlock()
	if err != nil {
		return fmt.Errorf("hybrid: close: Config.Record.To has not returned: %w", ctx.Err())
	}
	return nil
}

// counts tells how often the Writer has panicked, and how many decisions were lost.
func (r *recorder) counts() (panics, lost uint64) {
	if r == nil {
		return 0, 0
	}
	panics, _ = r.book.Counts()
	r.mu.Lock()
	defer r.mu.Unlock()
	return panics, r.lost
}

// settled notes a reservation that has ended, unless it has taken nothing.
func (r *recorder) settled(x *Reservation, actual int) {
	if r != nil && actual > 0 && r.records(x.key) {
		n := int64(min(x.n, math.MaxInt64/2))
		r.keep(note{at: x.came, key: x.key, n: n, cost: int64(actual), verdict: admitted})
	}
}

// noted writes down what became of a request for several keys. One that is denied has taken
// nothing of the keys that would admit it: it is as if it had not come to those.
func (s *several) noted(keep bool, err error) {
	r := s.l.recorder
	if r == nil {
		return
	}
	taken := err == nil && s.all.Allowed()
	for _, p := range s.all.Parts {
		denies := p.Verdict == lease.Denied || p.Verdict == lease.Exceeding
		if n := int64(p.N); n > 0 && p.Job() == nil && (taken && !keep || !taken && denies) {
			r.decided(p.Entry.Key, n, taken, true, err)
		}
	}
}
