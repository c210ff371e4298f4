package remote

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// hashedSize is how much of the digest names a key, in bytes. That two of a
// trillion keys have the same name, and so share a bucket, has a chance of 10^-15.
const hashedSize = 16

// WithHashedKeys names the hash of each key in Redis by HMAC-SHA-256 of the key
// and secret, so that who reads names there (MONITOR, SLOWLOG, a dump, a replica)
// does not learn tenants, users or addresses. After the prefix come 22 characters
// of 0-9 A-Z a-z _ -, however long the key is, and no braces: whoever chooses
// keys does not choose the node of a Redis Cluster.
//
// All processes that share limits need the same secret, 16 random bytes or
// more. Who knows it can try keys, and so can everybody if it is empty: there
// are few addresses and few tenants. Another secret begins with buckets that
// are full, as another prefix does.
//
// It costs about a microsecond for each exchange, and nothing for a decision
// from a lease. Errors and logs of this process name the key itself.
func WithHashedKeys(secret []byte) Option {
	secret = bytes.Clone(secret)
	return func(s *Store) {
		s.secret = string(secret)
		s.hash = func(key string) string {
			mac := hmac.New(sha256.New, secret)
			mac.Write([]byte(key))
			return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:hashedSize])
		}
	}
}
