package redistest

import (
	"strings"
	"testing"
)

// SentinelMaster is what the Sentinels of StartSentinels call their master.
const SentinelMaster = "ration"

// Sentinels are a master with a replica, and three Sentinels that make the
// replica the master when the master has been away for 300 ms.
type Sentinels struct {
	Master, Replica *Server // when they were started
	Watchers        []*Server

	t testing.TB
}

// StartSentinels returns when the Sentinels know each other and the replica.
func StartSentinels(t testing.TB) *Sentinels {
	t.Helper()
	s := &Sentinels{t: t, Master: Start(t)}
	s.Replica = Start(t, "replicaof 127.0.0.1 "+s.Master.Port())
	Await(t, "the replica follows", func() bool {
		role, ok := do(t, s.Replica, "role").([]any)
		return ok && len(role) > 3 && role[3] == "connected"
	})
	for range 3 {
		s.Watchers = append(s.Watchers, Start(t,
			"sentinel monitor "+SentinelMaster+" 127.0.0.1 "+s.Master.Port()+" 2",
			"sentinel down-after-milliseconds "+SentinelMaster+" 300",
			"sentinel failover-timeout "+SentinelMaster+" 2000",
		))
	}
	for _, w := range s.Watchers {
		Await(t, "the Sentinels know each other and the replica", func() bool {
			info := do(t, w, "info", "sentinel").(string)
			return strings.Contains(info, "status=ok") &&
				strings.Contains(info, "slaves=1,sentinels=3")
		})
	}
	return s
}

// Addrs are those of the Sentinels.
func (s *Sentinels) Addrs() []string {
	var addrs []string
	for _, w := range s.Watchers {
		addrs = append(addrs, w.Addr)
	}
	return addrs
}

// AwaitMaster waits until all Sentinels say that this server is the master,
// and it says so, too.
func (s *Sentinels) AwaitMaster(server *Server) {
	s.t.Helper()
	for _, w := range s.Watchers {
		Await(s.t, server.Addr+" is the master", func() bool {
			addr, _ := do(s.t, w, "sentinel", "get-master-addr-by-name", SentinelMaster).([]any)
			return len(addr) == 2 && addr[1] == server.Port()
		})
	}
	Await(s.t, server.Addr+" knows that it is the master", func() bool {
		return server.Role() == "master"
	})
}

// Role is what the server takes itself for: master or slave.
func (s *Server) Role() string {
	s.t.Helper()
	return do(s.t, s, "role").([]any)[0].(string)
}
