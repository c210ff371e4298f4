package hybrid

import "context"

// Key is a handle to one key of a Limiter. It is safe for concurrent use.
type Key struct {
	limiter *Limiter
	name    string
	memo    memo
}

// Allow is [Limiter.Allow] for this key.
func (k *Key) Allow() bool {
	return k.limiter.allow(&request{key: k.name, known: &k.memo, n: 1})
}

// AllowN is [Limiter.AllowN] for this key.
func (k *Key) AllowN(n int) bool {
	return k.limiter.allow(&request{key: k.name, known: &k.memo, n: n})
}

// Take is [Limiter.Take] for this key.
func (k *Key) Take(ctx context.Context, n int) (Decision, error) {
	return k.limiter.take(ctx, &request{key: k.name, known: &k.memo, n: n})
}

// TakeUpTo is [Limiter.TakeUpTo] for this key.
func (k *Key) TakeUpTo(ctx context.Context, n int) (int, Decision, error) {
	return k.limiter.takeUpTo(ctx, &request{key: k.name, known: &k.memo, n: n})
}

// Try is [Limiter.Try] for this key.
func (k *Key) Try(n int) (Decision, error) {
	q := request{key: k.name, known: &k.memo, n: n, try: true}
	return k.limiter.take(context.Background(), &q)
}

// Peek is [Limiter.Peek] for this key.
func (k *Key) Peek(ctx context.Context) (Decision, error) {
	return k.limiter.peek(ctx, &request{key: k.name, known: &k.memo})
}

// Reset is [Limiter.Reset] for this key.
func (k *Key) Reset(ctx context.Context) error { return k.limiter.Reset(ctx, k.name) }

// Wait is [Limiter.Wait] for this key.
func (k *Key) Wait(ctx context.Context, n int) error {
	return k.limiter.wait(ctx, &request{key: k.name, known: &k.memo, n: n})
}

// Reserve is [Limiter.Reserve] for this key. It looks the key up, as Charge and Refund do.
func (k *Key) Reserve(ctx context.Context, n int) (*Reservation, error) {
	return k.limiter.Reserve(ctx, k.name, n)
}

// WaitReserve is [Limiter.WaitReserve] for this key. It looks the key up, as Charge and Refund do.
func (k *Key) WaitReserve(ctx context.Context, n int) (*Reservation, error) {
	return k.limiter.WaitReserve(ctx, k.name, n)
}

// Charge is [Limiter.Charge] for this key.
func (k *Key) Charge(n int) error { return k.limiter.Charge(k.name, n) }

// Refund is [Limiter.Refund] for this key.
func (k *Key) Refund(n int) (back int, err error) { return k.limiter.Refund(k.name, n) }
