package whatif

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Store keeps what services tell, as remote.Store does. Its methods return in bounded time.
type Store interface {
	// PublishAll keeps texts of at most 4 KiB under their ids for a life of up to 5 min, in place of
	// what was there, in one round trip.
	PublishAll(ctx context.Context, texts map[string][]byte, life time.Duration) error

	// Published calls each for all that is kept, in one round trip.
	Published(ctx context.Context, each func(id string, age time.Duration, text []byte)) error
}

const (
	// readEvery is how often a service looks for questions, tellEvery how often it tells that it
	// is there, and life for how long it is believed. With more than fewPeers services all of them
	// look less often.
	readEvery = time.Second
	tellEvery = 5 * time.Second
	life      = 15 * time.Second
	fewPeers  = 10

	// answered is how long answers are waited for, and lookEvery how often they are looked for.
	answered  = 2500 * time.Millisecond
	lookEvery = 200 * time.Millisecond

	// An answer is pieces, each a text of a Store: mostPieces of them at most, and allPieces of all
	// services.
	mostPiece  = 4096
	mostPieces = 64
	allPieces  = 900
)

// A board is where services ask each other what they have recorded. Each has one question at a
// time, which also tells that it is there, and the answer to the last one that it was asked.
type board struct {
	record             *Record
	questions, answers Store
	id                 string
	log                *slog.Logger

	asking chan struct{} // has room for one who asks

	mu    sync.Mutex
	peers map[string]string // the last question of each, by id
	told  time.Time
}

// A question is what was recorded of a rule. One without a Path is none.
type question struct{ ID, Domain, Path string }

// Share has services that share two Stores ask each other, each of a namespace of its own in the
// same Redis. It is called once, before Run.
func (r *Record) Share(questions, answers Store, log *slog.Logger) {
	r.board = &board{
		record: r, questions: questions, answers: answers, id: rand.Text(), log: log,
		asking: make(chan struct{}, 1), peers: map[string]string{},
	}
}

// Run answers other services until ctx ends.
func (r *Record) Run(ctx context.Context) {
	if r.board == nil {
		return
	}
	for timer := time.NewTimer(0); ; timer.Reset(r.board.pause()) {
		select {
		case <-timer.C:
			if err := r.board.read(ctx); err != nil && ctx.Err() == nil {
				r.board.log.Debug("whatif: other services cannot ask", "error", err)
			}
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// pause is how long to wait until the next look.
func (b *board) pause() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return min(readEvery*time.Duration(1+len(b.peers)/fewPeers), tellEvery)
}

// read tells others that this service is there, and answers what they ask.
func (b *board) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if time.Since(b.lastTold()) >= tellEvery {
		if err := b.tell(ctx, question{}); err != nil {
			return err
		}
	}
	found := map[string]question{}
	err := b.questions.Published(ctx, func(id string, _ time.Duration, text []byte) {
		var q question
		if id != b.id && json.Unmarshal(text, &q) == nil {
			found[id] = q
		}
	})
	if err != nil {
		return err
	}
	for _, q := range b.news(found) {
		if err := b.answer(ctx, q, len(found)); err != nil {
			return err
		}
	}
	return nil
}

func (b *board) lastTold() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.told
}

// tell publishes a question, or that there is none.
func (b *board) tell(ctx context.Context, q question) error {
	text, _ := json.Marshal(q) // of strings
	if len(text) > mostPiece {
		return errLong
	}
	err := b.questions.PublishAll(ctx, map[string][]byte{b.id: text}, life)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.told = time.Now()
	}
	return err
}

// news are questions that were not there before.
func (b *board) news(found map[string]question) (list []question) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, q := range found {
		if q.ID != "" && b.peers[id] != q.ID {
			list = append(list, q)
		}
	}
	b.peers = map[string]string{}
	for id, q := range found {
		b.peers[id] = q.ID
	}
	return list
}

// answer publishes what was recorded, as far as it fits.
func (b *board) answer(ctx context.Context, q question, peers int) error {
	pieces := max(1, min(mostPieces, allPieces/(peers+1)))
	head := q.ID + " " + strconv.Itoa(pieces) + "\n"
	piece := mostPiece - len(head)
	if piece < mostPiece/2 {
		return errLong // no service asks so
	}
	text := b.record.part(q.Domain, q.Path).fit(pieces * piece)
	pieces = (len(text) + piece - 1) / piece
	texts := map[string][]byte{}
	for i := range pieces {
		from := text[i*piece : min(len(text), (i+1)*piece)]
		texts[b.id+"/"+strconv.Itoa(i)] = append([]byte(q.ID+" "+strconv.Itoa(pieces)+"\n"), from...)
	}
	return b.answers.PublishAll(ctx, texts, life)
}

// ask returns what others have recorded, and how many of them have not answered.
func (b *board) ask(ctx context.Context, domain, path string) (parts []part, missing int) {
	b.mu.Lock()
	peers := maps.Clone(b.peers)
	b.mu.Unlock()
	select {
	case b.asking <- struct{}{}:
		defer func() { <-b.asking }()
	case <-ctx.Done():
		return nil, len(peers)
	}
	if len(peers) == 0 {
		return nil, 0
	}
	ctx, cancel := context.WithTimeout(ctx, answered)
	defer cancel()
	q := question{rand.Text(), domain, path}
	if err := b.tell(ctx, q); err != nil {
		b.log.Warn("whatif: other services cannot be asked", "error", err)
		return nil, len(peers)
	}
	found := map[string]part{}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for len(found) < len(peers) {
		select {
		case <-look.C:
		case <-ctx.Done():
			return list(found), len(peers) - len(found)
		}
		b.look(ctx, q.ID, peers, found)
	}
	return list(found), 0
}

func list(found map[string]part) (parts []part) {
	for _, p := range found {
		parts = append(parts, p)
	}
	return parts
}

// look adds the answers that are complete, and were not yet.
func (b *board) look(
	ctx context.Context, question string, peers map[string]string, found map[string]part,
) {
	type pieces struct {
		texts map[int][]byte
		all   int
	}
	read := map[string]pieces{}
	err := b.answers.Published(ctx, func(id string, _ time.Duration, text []byte) {
		from, piece, _ := strings.Cut(id, "/")
		head, rest, _ := strings.Cut(string(text), "\n")
		of, number, _ := strings.Cut(head, " ")
		i, err1 := strconv.Atoi(piece)
		all, err2 := strconv.Atoi(number)
		_, known := peers[from]
		if _, have := found[from]; !known || have || of != question || err1 != nil || err2 != nil {
			return
		}
		p := read[from]
		if p.texts == nil {
			p = pieces{map[int][]byte{}, all}
			read[from] = p
		}
		p.texts[i] = []byte(rest)
	})
	if err != nil {
		b.log.Debug("whatif: answers of other services are not known", "error", err)
	}
	for id, p := range read {
		var text []byte
		complete := p.all > 0 && p.all <= mostPieces
		for i := 0; i < p.all && complete; i++ {
			one, there := p.texts[i]
			text, complete = append(text, one...), there
		}
		if !complete {
			continue
		}
		if one, ok := decode(text); ok {
			found[id] = one
		}
	}
}
