// Package hybrid limits the rate of requests over many processes with few
// calls to Redis.
//
// Each process leases a part of a key's token bucket and decides from it under
// a mutex, without the network. Over any window of T seconds the whole fleet
// admits at most
//
//	Burst + Rate*(T + Timeout)
//
// tokens of a key, however many processes there are and whatever is lost,
// repeated or delayed on the way; see docs/guarantees.md for the proof and for
// what is not promised. The Timeout stands there only for tokens that were
// granted to waiting requests and were still under way when the window began.
//
// A Quota lets exactly so many tokens through in each day, hour or month of the calendar, and
// a Sliding window in any time of its length, by the same leases. Of Slots at most so many are
// in use at once: see Limiter.Acquire.
//
// # Use
//
//	store := remote.New(redis.NewClient(remote.Options("localhost:6379")))
//	limiter, err := hybrid.New(store, hybrid.Config{
//		Limit: hybrid.PerSecond(1000).WithBurst(200),
//	})
//	...
//	defer limiter.Close(context.Background())
//	if !limiter.Allow("tenant:42") {
//		// 429
//	}
//
// A key that a process uses once a second or more does not wait for the
// network: its lease is renewed ahead of need by a few goroutines that all keys
// share. Others wait for one round trip, at most Config.Timeout: the requests of
// a key's first 10 ms or after a pause (of Policy.MaxHold, if they are few and the
// limit is generous), those for more tokens than the process's part of the bucket
// holds, and all where the limit is too small to be divided.
package hybrid
