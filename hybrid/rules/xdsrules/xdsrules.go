// Package xdsrules has rules from a control plane, by xDS: it is the rules.Source that
// envoyproxy/ratelimit has with CONFIG_TYPE=GRPC_XDS_SOTW. Envoy Gateway and AI Gateway are such
// control planes.
//
//	source, err := xdsrules.New(conn, xdsrules.Config{File: "last.pb"})
//	...
//	defer source.Close()
//	limiter, err := rules.New(store, source, rules.Config{Empty: true})
//
// # Promise
//
// What the control plane sends comes into force as a whole, and is acknowledged, or it is refused
// with its mistakes, and the rules before stay. So they do while the control plane is away, and
// through a restart if there is a File. While the rules may not be those of the control plane,
// rules.Stats tells.
//
// A state without any document is refused while there are rules: it is more likely to be lost than
// meant. Limits are lifted by documents that say so: a domain without descriptors, or rules that
// are unlimited.
package xdsrules

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/envoyproxy/go-control-plane/pkg/client/sotw/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/seed13b07268/ration/hybrid/rules"
)

const (
	leastPause = time.Second      // before another stream
	mostPause  = 30 * time.Second // it doubles up to that
	patience   = 3 * time.Second  // for the control plane, where a File has rules

	// nackPause is the time before the same refusal again: a server of go-control-plane sends what
	// was refused at once again, for ever.
	nackPause = 500 * time.Millisecond
)

// Config configures a Source. Its zero value is a good one, but for File.
type Config struct {
	// Node is the id by which the control plane knows the fleet. Default: "default".
	Node string

	// Metadata is what else the control plane is told about this node.
	Metadata map[string]string

	// File is where the last good rules are kept, so that a restart does not need the control
	// plane. Its folder must be there. Default: none.
	File string

	// Log is told when the stream ends or begins again, and what the File does. Default:
	// slog.Default().
	Log *slog.Logger
}

// A Source is the rules.Source of a control plane. It is safe for concurrent use.
type Source struct {
	config Config
	conn   grpc.ClientConnInterface
	end    context.CancelFunc
	ended  chan struct{}
	waited chan struct{} // closed when patience has ended

	mu      sync.Mutex
	docs    []rules.Document
	tag     string        // "": nothing has come
	err     error         // why docs may not be what the control plane has
	changed chan struct{} // closed when docs, tag or err change
}

var (
	errNothing = errors.New("xdsrules: the control plane has sent nothing yet")
	errLost    = errors.New("xdsrules: there is no document at all, and there were some:" +
		" a domain without descriptors lifts its limits")
)

// New returns the Source of the control plane at the other end of a connection, which stays the
// caller's. It does not block. An error says that the File cannot be read. One that is not there
// yet is none, and so is one that has no valid rules, which is logged.
func New(conn grpc.ClientConnInterface, c Config) (*Source, error) {
	if c.Node == "" {
		c.Node = "default"
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	s := &Source{
		config: c, conn: conn, ended: make(chan struct{}), waited: make(chan struct{}),
		changed: make(chan struct{}), err: errNothing,
	}
	if err := s.restore(); err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	time.AfterFunc(patience, func() { close(s.waited) })
	go s.follow(ctx)
	return s, nil
}

// Close ends the stream. It waits until that has ended.
func (s *Source) Close() error {
	s.end()
	<-s.ended
	return nil
}

// Load implements rules.Source. It waits for the control plane until ctx ends, or where the File
// has rules until 3 s after New.
func (s *Source) Load(ctx context.Context) ([]rules.Document, string, error) {
	for {
		s.mu.Lock()
		docs, tag, err, changed := s.docs, s.tag, s.err, s.changed
		s.mu.Unlock()
		if tag != "" && !errors.Is(err, errNothing) {
			return docs, tag, nil
		}
		waited := s.waited
		if tag == "" {
			waited = nil
		}
		select {
		case <-changed:
		case <-waited:
			return docs, tag, nil
		case <-ctx.Done():
			return nil, "", errors.Join(err, ctx.Err())
		}
	}
}

// Wait implements rules.Source. Its error says why the rules may not be those of the control plane:
// the stream has ended, or what it sent was refused.
func (s *Source) Wait(ctx context.Context, tag string) error {
	for {
		s.mu.Lock()
		now, err, changed := s.tag, s.err, s.changed
		s.mu.Unlock()
		if now != tag || err != nil {
			if now != tag {
				err = nil
			}
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// set changes what is known.
func (s *Source) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// follow has one stream after the other, until ctx ends.
func (s *Source) follow(ctx context.Context) {
	defer close(s.ended)
	pause := leastPause
	for {
		heard, err := s.stream(ctx)
		if ctx.Err() != nil {
			return
		}
		if heard {
			pause = leastPause
		}
		err = fmt.Errorf("xdsrules: the stream of the control plane has ended: %w", err)
		s.config.Log.Warn("rules may be old", "error", err)
		s.set(func() {
			if !errors.Is(s.err, errNothing) {
				s.err = err
			}
		})
		rest(ctx, pause/2+rand.N(pause/2))
		pause = min(2*pause, mostPause)
	}
}

// stream has one stream, and returns why it has ended, and whether something was heard.
func (s *Source) stream(ctx context.Context) (heard bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A new client for each: the nonce of one stream means nothing to the next one.
	client := sotw.NewADSClient(ctx, s.node(), resource.RateLimitConfigType)
	if err := client.InitConnect(s.conn, grpc.WaitForReady(true)); err != nil {
		return false, err
	}
	refused := ""
	for {
		got, err := client.Fetch()
		if err != nil {
			return heard, err
		}
		heard = true
		docs, err := s.accept(got.Resources)
		if err != nil {
			if err.Error() == refused {
				rest(ctx, nackPause)
			} else {
				s.config.Log.Warn("rules of the control plane are refused", "error", err)
				s.set(func() { s.err = fmt.Errorf("xdsrules: refused: %w", err) })
			}
			refused = err.Error()
			if err := client.Nack(fmt.Sprintf("%.4000s", err.Error())); err != nil {
				return heard, err
			}
			continue
		}
		refused = ""
		s.set(func() { s.docs, s.tag, s.err = docs, tagOf(docs), nil })
		s.keep(got.Resources) // after set: a disk may be slow
		if err := client.Ack(); err != nil {
			return heard, err
		}
	}
}

// accept returns the documents of a state. One without any is accepted only where there are none:
// what is lost is no deletion.
func (s *Source) accept(resources []*anypb.Any) ([]rules.Document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(resources) == 0 && len(s.docs) > 0 {
		return nil, errLost
	}
	return documents(resources)
}

// rest waits for a time, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (s *Source) node() *core.Node {
	fields := map[string]*structpb.Value{}
	for name, value := range s.config.Metadata {
		fields[name] = structpb.NewStringValue(value)
	}
	return &core.Node{Id: s.config.Node, Metadata: &structpb.Struct{Fields: fields}}
}

// documents are those of resources, checked.
func documents(resources []*anypb.Any) ([]rules.Document, error) {
	docs := make([]rules.Document, len(resources))
	for i, r := range resources {
		doc, err := document(r)
		if err != nil {
			return nil, err
		}
		docs[i] = doc
	}
	_, err := rules.Parse(docs...)
	return docs, err
}

// tagOf is a hash of documents.
func tagOf(docs []rules.Document) string {
	h := sha256.New()
	for _, d := range docs {
		fmt.Fprintf(h, "%q %d\n", d.Name, len(d.Text))
		h.Write(d.Text)
	}
	return hex.EncodeToString(h.Sum(nil))
}
