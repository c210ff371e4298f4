// Package budget proposes estimates for hybrid.Limiter.Reserve: what jobs of the same kind have
// cost lately, above what was guessed.
//
// # Promise
//
// Of the jobs that come, about the Quantile of them cost no more than was proposed, as long as they
// are like the last 64 of their key. Where a job has a hard bound, such as max_tokens, no proposal
// is above it. Memory is bounded: half a KiB for each of MaxKeys keys.
//
// # What it does not promise
//
// A job may cost more than its estimate. Then hybrid.Reservation.Settle charges the difference,
// which may be a debt. Only a hard bound as the estimate goes beyond a limit by nothing. A Budget
// knows this process only, and forgets with it. It reads no clock, starts no goroutine and does no
// I/O.
package budget

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

const (
	recent = 64 // costs of a key that are remembered
	few    = 8  // costs below which nothing is known of a key
)

// Config configures a Budget. The zero Config is a good one.
type Config struct {
	// Quantile of the jobs cost no more than what is proposed, 0.5 to 0.99. A high one reserves
	// what is not used, and so admits fewer jobs at once; a low one leaves more debts. Default:
	// 0.9.
	Quantile float64

	// MaxKeys is how many keys, such as models or routes, have memories of their own, 1 to
	// 1,000,000. All further ones have one together. Default: 1000.
	MaxKeys int
}

// A Budget is safe for concurrent use.
type Budget struct {
	config Config
	mu     sync.Mutex
	keys   map[string]*memory
	others memory
}

// A memory is a ring of what the last jobs of a key have cost above their guesses.
type memory struct {
	errors [recent]int
	n      int // so far
}

// New returns a Budget, or an error that names the field of config that is wrong.
func New(config Config) (*Budget, error) {
	if config.Quantile == 0 {
		config.Quantile = 0.9
	}
	if config.MaxKeys == 0 {
		config.MaxKeys = 1000
	}
	switch {
	case !(config.Quantile >= 0.5 && config.Quantile <= 0.99):
		return nil, fmt.Errorf("budget: Config.Quantile %v is not from 0.5 to 0.99", config.Quantile)
	case config.MaxKeys < 1 || config.MaxKeys > 1_000_000:
		return nil, fmt.Errorf("budget: Config.MaxKeys %d is not from 1 to 1000000", config.MaxKeys)
	}
	return &Budget{config: config, keys: map[string]*memory{}}, nil
}

// Estimate proposes what to reserve for a job of a key: the guess, and what such jobs cost above
// it. The guess is what the caller knows, such as the tokens of a prompt, or 0. most is a hard
// bound of the cost; 0 stands for none. Before eight jobs of the key were settled it is most, or
// the guess if there is none. It is at least 1, as a request for 0 tokens is admitted even where
// there is a debt.
func (b *Budget) Estimate(key string, guess, most int) int {
	if most <= 0 {
		most = math.MaxInt
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.memory(key)
	switch {
	case m.n >= few:
		guess = sum(guess, m.quantile(b.config.Quantile))
	case most != math.MaxInt:
		guess = most
	}
	return min(max(guess, 1), most)
}

// Settle tells what a job has cost for which the caller had this guess. Tell it of jobs that have
// been done, and not of those that were cancelled.
func (b *Budget) Settle(key string, guess, actual int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.memory(key)
	if m == &b.others && len(b.keys) < b.config.MaxKeys {
		m = &memory{}
		b.keys[key] = m
	}
	m.errors[m.n%recent] = sum(actual, -max(guess, -math.MaxInt))
	if m.n++; m.n == 2*recent { // the ring is full, and stays so
		m.n = recent
	}
}

func (b *Budget) memory(key string) *memory {
	if m := b.keys[key]; m != nil {
		return m
	}
	return &b.others
}

// quantile is the least error that so many of the errors, and one to come, are not above.
func (m *memory) quantile(q float64) int {
	sorted := slices.Clone(m.errors[:min(m.n, recent)])
	slices.Sort(sorted)
	return sorted[min(int(math.Ceil(q*float64(len(sorted)+1))), len(sorted))-1]
}

// sum is that of two numbers, or the largest or smallest int.
func sum(a, b int) int {
	switch {
	case b > 0 && a > math.MaxInt-b:
		return math.MaxInt
	case b < 0 && a < math.MinInt-b:
		return math.MinInt
	}
	return a + b
}
