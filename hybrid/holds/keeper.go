package holds

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// patience is for how long a hold may be on its way to the Store.
	patience = 5 * time.Second

	// Poll is how often a replica with open holds asks what became of them.
	Poll = 250 * time.Millisecond

	// pace is from a batch of several calls to the next one, unless that is full: what comes
	// meanwhile goes together. A call of a busy replica waits so much longer (TestElsewhere).
	pace = 5 * time.Millisecond

	mostCalls  = 256 // of a batch
	maxID      = 128
	mostTokens = 1 << 53 // the largest number that a script of Redis counts to
)

// Errors of a Keeper's verbs. Each is wrapped.
var (
	// ErrAbsent: the owner has no such hold, or it has ended more than Kept ago.
	ErrAbsent = errors.New("no such hold")
	// ErrDiffers: a hold of the ID has another content, or has been settled otherwise.
	ErrDiffers = errors.New("the hold is another one, or was settled otherwise")
	// ErrOver: it has ended. To Settle: its life has.
	ErrOver = errors.New("the hold has ended")
	// ErrNumbers: what was used has not a number for each of the estimate.
	ErrNumbers = errors.New("not a number for each of the estimate")
	// ErrFull: this replica, or the client at it, has too many open holds.
	ErrFull = errors.New("too many open holds")
	// ErrID: an ID is not 1 to 128 letters, digits, dots, hyphens and underscores, without a dot
	// at the beginning.
	ErrID = errors.New("invalid ID of a hold")
)

// Tokens are those that a home has reserved. Settle is called once.
type Tokens interface{ Settle(used ...int) error }

// An Order is what Reserve makes a hold of.
type Order struct {
	Owner   string        // only the same Owner finds the hold
	Client  string        // for whom Config.MostOfClient counts it; empty: Owner
	ID      string        // empty: one is made up
	Content string        // what a repeat of the ID must be equal in, not empty
	Life    time.Duration // in whole ms, up to MaxLife
	Spent   bool          // if nobody settles it, its estimate is spent; else it comes back
	// Estimate has a number for each that Settle will have, from 0 to 2^53.
	Estimate []int
	// Learn is told what was used when somebody has settled the hold, wherever, also for a Cancel,
	// once the tokens are back. Default: nothing. It is called at home by a goroutine that others wait for.
	Learn func(used []int)
	// Take reserves the tokens, and says what Reserve answers. Without tokens (nil), it is a
	// denial.
	Take func(ctx context.Context) (t Tokens, answer string, err error)
}

// A Hold is what a Keeper knows of one.
type Hold struct {
	ID     string // empty after a denial
	Answer string // of Take, when the hold was made
	Ends   time.Time
}

// Config configures a Keeper. Store and Charge are needed.
type Config struct {
	Store Store

	// Charge is called for what a hold of another home has used above its estimate.
	Charge func(content string, above []int) error

	// Failed is told of a Settle or a Charge that has failed or panicked. Default: nothing.
	Failed func(error)

	Most         int // open holds of this replica, at least 1; default: 10,000
	MostOfClient int // of each client among them, at least 1; default: 1,000
}

// A Keeper is a replica's part. It is safe for concurrent use.
type Keeper struct {
	c        Config
	home     string
	patience time.Duration
	gap      time.Duration // between two times in which mine is gone through
	pace     time.Duration

	mu     sync.Mutex
	mine   map[string]*local // by name
	count  map[string]int    // of mine, by client
	made   int
	queue  []*pending
	flying bool
	acks   []string  // notices that are done, until a reply shows that the Store knows
	clock  time.Time // the Store's, at least, when it was at
	at     time.Time
	looked time.Time // when mine was gone through, by the Store's clock
	unsure time.Time // until then a batch without a reply may have left notices

	sent time.Time // the last batch of several calls; of the goroutine that sends
}

// A local is a hold of which this replica is the home.
type local struct {
	Call
	client  string
	learn   func(used []int)
	tokens  Tokens
	err     error         // of Take
	gone    bool          // its ctx had ended then
	ready   chan struct{} // closed once Take has said both
	ends    time.Time     // at least, by the Store's clock
	certain bool          // the Store has it
	looking bool
}

// A pending is a call whose answer somebody waits for.
type pending struct {
	Call
	answer Answer
	err    error
	done   chan struct{}
}

// New returns a Keeper with a home of its own, or an error that names the field of c that is wrong.
func New(c Config) (*Keeper, error) {
	if c.Failed == nil {
		c.Failed = func(error) {}
	}
	if c.Most == 0 {
		c.Most = 10_000
	}
	if c.MostOfClient == 0 {
		c.MostOfClient = 1_000
	}
	switch {
	case c.Store == nil:
		return nil, errors.New("holds: Config.Store is nil")
	case c.Charge == nil:
		return nil, errors.New("holds: Config.Charge is nil")
	case c.Most < 1:
		return nil, fmt.Errorf("holds: Config.Most %d is not at least 1", c.Most)
	case c.MostOfClient < 1:
		return nil, fmt.Errorf("holds: Config.MostOfClient %d is not at least 1", c.MostOfClient)
	}
	return &Keeper{
		c: c, home: rand.Text(), patience: patience, gap: Poll, pace: pace,
		mine: map[string]*local{}, count: map[string]int{},
	}, nil
}

// Open returns how many holds this replica is the home of that have not ended, as far as it knows.
// The tokens of one that has just ended may be on their way back still.
func (k *Keeper) Open() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.mine)
}

// nameOf names an owner's hold in the Store.
func nameOf(owner, id string) string { return fmt.Sprintf("%d:%s:%s", len(owner), owner, id) }

// ValidID says whether a caller may choose an ID.
func ValidID(id string) bool {
	return len(id) >= 1 && len(id) <= maxID && id[0] != '.' && strings.Trim(id,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
}

// Settle ends a hold with what was used: a number for each of the estimate. It blocks as the Store
// does, for two batches at most, or one more for each 256 calls that wait, and for 5 ms more. If
// ctx ends before, the hold may be settled or not.
//
// Errors: ErrAbsent, ErrDiffers, ErrOver, ErrNumbers, that of a number that is not from 0 to 2^53,
// those of ctx and of the Store. It can be repeated after the latter two.
func (k *Keeper) Settle(ctx context.Context, owner, id string, used []int) error {
	if err := checkNumbers("used", used); err != nil {
		return fmt.Errorf("holds: settle %.100q: %w", id, err)
	}
	_, err := k.do(ctx, Call{Verb: Settle, Name: nameOf(owner, id), Used: used})
	return err
}

// Cancel is Settle of a job that was not done: nothing was used.
func (k *Keeper) Cancel(ctx context.Context, owner, id string) error {
	return k.Settle(ctx, owner, id, nil)
}

// Extend has a hold last for a life from now, if that is longer: 1 ms to MaxLife. It blocks as
// Settle does, and has its errors.
func (k *Keeper) Extend(
	ctx context.Context, owner, id string, life time.Duration,
) (Hold, error) {
	if err := checkLife(life); err != nil {
		return Hold{}, fmt.Errorf("holds: extend %.100q: %w", id, err)
	}
	a, err := k.do(ctx, Call{Verb: Extend, Name: nameOf(owner, id), Life: life})
	return Hold{id, a.Answer, a.Ends}, err
}

// do sends a call, and waits for the answer.
func (k *Keeper) do(ctx context.Context, c Call) (Answer, error) {
	p := k.send(c)
	select {
	case <-p.done:
		return p.answer, p.verdict()
	case <-ctx.Done():
		k.recall(p)
		return Answer{}, fmt.Errorf("holds: %s %.100q: %w", c.Verb, c.Name, ctx.Err())
	}
}

// verdict is the error of an answer.
func (p *pending) verdict() error {
	err := p.err
	if err == nil {
		err = map[Verdict]error{
			Differs: ErrDiffers, Over: ErrOver, Absent: ErrAbsent, Numbers: ErrNumbers,
			Late: context.DeadlineExceeded,
		}[p.answer.Verdict]
	}
	if err != nil {
		return fmt.Errorf("holds: %s %.100q: %w", p.Verb, p.Name, err)
	}
	return nil
}
