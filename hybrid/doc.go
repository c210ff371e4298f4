// Package hybrid limits the rate of requests over many processes with few
// calls to Redis.
//
// Each process leases a part of a key's token bucket and decides from it under
// a mutex, without the network. Over any window of T seconds all processes together
// admit at most
//
//	Burst + Rate*(T + Timeout)
//
// tokens of a key, however many processes there are and whatever is lost,
// repeated or delayed on the way. The Timeout stands there only for tokens that were
// granted to waiting requests and were still under way when the window began.
// docs/guarantees.md has the proof.
//
// A Quota admits at most so many tokens in each day, hour or month of the calendar, and a
// Sliding window in any time of its length, by the same leases. Of Slots at most so many are in
// use at once: see Limiter.Acquire.
//
// It does not promise that the limit holds while the store does not answer, or when the store
// loses its data. Leases go on until they end, and then Config.Outage decides.
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
// Requests for a key that a process uses once a second or more do not wait for the
// network: its lease is renewed ahead of need by a few goroutines that all keys
// share. These requests wait for one round trip, at most Config.Timeout, or for two behind
// an exchange of the key that is out:
//
//   - those of a key's first 10 ms,
//   - the first after a pause, which is one of Policy.MaxHold if requests are few and the
//     limit is generous,
//   - those for more tokens than the process's part of the bucket holds,
//   - all, where the limit is too small to be divided.
package hybrid
