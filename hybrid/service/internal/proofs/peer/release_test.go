//go:build !head

package peer

import "github.com/envoyproxy/ratelimit/src/redis"

// PipeDo is as the version of go.mod has it.
func (m *memory) PipeDo(redis.Pipeline) error { return m.do() }
