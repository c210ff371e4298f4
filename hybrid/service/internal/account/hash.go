package account

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/argon2"
)

// Cost is what a hash of a password takes, by argon2id.
type Cost struct {
	KiB    uint32 // memory
	Passes uint32
	Lanes  uint8
}

// DefaultCost is the second recommendation of RFC 9106, section 4.
var DefaultCost = Cost{KiB: 64 << 10, Passes: 3, Lanes: 4}

const (
	saltBytes = 16
	sumBytes  = 32

	// hashesAtOnce bounds the memory of hashes: 128 MiB at the default cost, and as much again that
	// is not collected yet.
	hashesAtOnce = 2

	// hashPatience is how long a request waits for its turn.
	hashPatience = 5 * time.Second
)

// A hasher makes and compares hashes, a few at a time.
type hasher struct {
	cost  Cost
	turns chan struct{}
	dummy string // no password has this hash
	key   func(password, salt []byte, passes, kib uint32, lanes uint8, n uint32) []byte
}

func newHasher(c Cost) *hasher {
	h := &hasher{cost: c, turns: make(chan struct{}, hashesAtOnce), key: argon2.IDKey}
	h.dummy = encode(c, random(saltBytes), random(sumBytes))
	return h
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return b
}

// hash returns the hash of a password in the PHC format.
func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	salt := random(saltBytes)
	sum, err := h.sum(ctx, h.cost, password, salt)
	if err != nil {
		return "", err
	}
	return encode(h.cost, salt, sum), nil
}

// matches reports whether a hash is that of a password. An empty hash is of none, and takes the
// same time, so that nobody learns by it which users there are.
func (h *hasher) matches(ctx context.Context, encoded, password string) (bool, error) {
	known := encoded != ""
	if !known {
		encoded = h.dummy
	}
	c, salt, want, err := decode(encoded)
	if err != nil {
		return false, err
	}
	sum, err := h.sum(ctx, c, password, salt)
	return err == nil && subtle.ConstantTimeCompare(sum, want) == 1 && known, err
}

// sum waits for its turn.
func (h *hasher) sum(ctx context.Context, c Cost, password string, salt []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, hashPatience)
	defer cancel()
	select {
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
	case <-ctx.Done():
		return nil, ErrBusy
	}
	return h.key([]byte(password), salt, c.Passes, c.KiB, c.Lanes, sumBytes), nil
}

func encode(c Cost, salt, sum []byte) string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version,
		c.KiB, c.Passes, c.Lanes, b64.EncodeToString(salt), b64.EncodeToString(sum))
}

// mostKiB bounds what a hash from the database may ask for.
const mostKiB = 1 << 20

func decode(encoded string) (c Cost, salt, sum []byte, err error) {
	var version int
	var rest string
	_, err = fmt.Sscanf(encoded, "$argon2id$v=%d$m=%d,t=%d,p=%d$%s",
		&version, &c.KiB, &c.Passes, &c.Lanes, &rest)
	if err == nil && (version != argon2.Version || c.check() != nil) {
		err = errors.New("parameters")
	}
	var sep int
	for sep < len(rest) && rest[sep] != '$' {
		sep++
	}
	if err == nil && sep == len(rest) {
		err = errors.New("no sum")
	}
	if err == nil {
		salt, err = base64.RawStdEncoding.DecodeString(rest[:sep])
	}
	if err == nil {
		sum, err = base64.RawStdEncoding.DecodeString(rest[sep+1:])
	}
	if err == nil && len(sum) != sumBytes {
		err = errors.New("length")
	}
	if err != nil {
		return c, nil, nil, fmt.Errorf("a stored password is no hash by argon2id: %w", err)
	}
	return c, salt, sum, nil
}

func (c Cost) check() error {
	if c.KiB < 8*uint32(c.Lanes) || c.KiB > mostKiB || c.Passes < 1 || c.Passes > 100 || c.Lanes < 1 {
		return fmt.Errorf("Cost %+v: 8 KiB for each lane to 1 GiB, 1 to 100 passes, 1 to 255 lanes", c)
	}
	return nil
}
