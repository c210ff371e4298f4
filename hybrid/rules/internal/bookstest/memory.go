package bookstest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/internal/book"
)

// Memory is the state of a book in memory: the simplest that does what a Book promises.
type Memory struct {
	mu      sync.Mutex
	domains map[string][]revision
	changes int
	changed chan struct{} // closed by the next change
}

// A revision with the Base of its change.
type revision struct {
	rules.Revision
	base int64
}

// NewMemory returns the state of an empty book.
func NewMemory() *Memory {
	return &Memory{domains: map[string][]revision{}, changed: make(chan struct{})}
}

// Open returns a Book of the state, as another process has it.
func (m *Memory) Open() rules.Book { return &memoryBook{Memory: m} }

// Wipe loses the state.
func (m *Memory) Wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.domains = map[string][]revision{}
	m.tellLocked()
}

func (m *Memory) tellLocked() {
	m.changes++
	close(m.changed)
	m.changed = make(chan struct{})
}

type memoryBook struct {
	*Memory
	seen book.Seen
}

// Load is part of rules.Source.
func (b *memoryBook) Load(context.Context) ([]rules.Document, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var newest []rules.Revision
	for _, list := range b.domains {
		newest = append(newest, list[len(list)-1].Revision)
	}
	if err := b.seen.Accept(newest); err != nil {
		return nil, "", fmt.Errorf("memory: %w", err)
	}
	return book.Documents("memory", newest), strconv.Itoa(b.changes), nil
}

// Wait is part of rules.Source.
func (b *memoryBook) Wait(ctx context.Context, tag string) error {
	b.mu.Lock()
	now, changed := strconv.Itoa(b.changes), b.changed
	b.mu.Unlock()
	if now != tag {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
		return nil
	}
}

// Save is part of rules.Book.
func (b *memoryBook) Save(_ context.Context, c rules.Change) (rules.Revision, error) {
	if err := book.Check(c); err != nil {
		return rules.Revision{}, fmt.Errorf("memory: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.domains[c.Domain]
	var newest revision
	if len(list) > 0 {
		newest = list[len(list)-1]
	}
	deleted := newest.Version > 0 && newest.Text == nil
	switch {
	case newest.Version > 0 && newest.base == c.Base && newest.Author == c.Author &&
		newest.Reason == c.Reason && deleted == (c.Text == nil) && bytes.Equal(newest.Text, c.Text):
		return newest.Revision, nil
	case deleted && c.Text == nil, newest.Version != c.Base && (!deleted || c.Base != 0):
		return rules.Revision{}, fmt.Errorf("memory: %w: it is at version %d, not %d",
			rules.ErrConflict, newest.Version, c.Base)
	case newest.Version == 0 && len(b.domains) >= rules.MaxDomains:
		return rules.Revision{}, fmt.Errorf("memory: the book has %d domains", len(b.domains))
	}
	r := rules.Revision{
		Domain: c.Domain, Version: newest.Version + 1, Text: bytes.Clone(c.Text),
		Author: c.Author, Reason: c.Reason, Time: time.Now(),
	}
	b.domains[c.Domain] = append(list, revision{r, c.Base})
	b.tellLocked()
	return r, nil
}

// History is part of rules.Book.
func (b *memoryBook) History(
	_ context.Context, domain string, before int64, n int,
) ([]rules.Revision, error) {
	if err := book.CheckHistory(domain, before, n); err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []rules.Revision
	for _, r := range slices.Backward(b.domains[domain]) {
		if (before == 0 || r.Version < before) && len(list) < n {
			list = append(list, r.Revision)
		}
	}
	return list, nil
}
