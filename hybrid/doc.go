// Package hybrid limits the rate of requests over many processes with few calls to Redis.
//
//	store := remote.New(redis.NewClient(remote.Options("localhost:6379")))
//	limiter, err := hybrid.New(store, hybrid.Config{
//		Limit: hybrid.PerSecond(1000).WithBurst(200), // of each key, over all processes
//	})
//	...
//	defer limiter.Close(context.Background())
//	if !limiter.Allow("tenant:42") {
//		// 429
//	}
//
// Each process leases a part of a key's token bucket and decides from its lease, without the
// network. Over any window of T seconds all processes together admit at most
//
//	Burst + Rate*(T + Timeout)
//
// tokens of a key, whatever is lost, repeated or delayed on the way. The Timeout counts only for
// requests that waited for Redis. [Guarantees] has the proof.
//
// The limit may not hold while the store is away, or when the store loses its data. Leases go on
// until they end, and then [Config.Outage] decides.
//
// # Limits
//
//   - a token bucket: [PerSecond], [PerMinute], [PerHour], [Per]; [Limit.WithBurst]
//   - so many in each day, hour or month of the calendar: [Quota]; [Limit.In] another zone
//   - so many in any time of some length: [Sliding]
//   - so many at once: [Slots]
//   - all, or nothing: [Unlimited], [Blocked]
//   - a limit of its own for each key: [Config.LimitFor]
//
// # Requests
//
//   - the verdict: [Limiter.Allow], [Limiter.AllowN]
//   - what is left, and when to come back: [Limiter.Take], a [Decision]
//   - never blocks: [Limiter.Try]
//   - waits for tokens, in order: [Limiter.Wait]
//   - as many tokens as there are: [Limiter.TakeUpTo]
//   - from the first key that has them: [Limiter.TakeFirst]
//   - for several keys, all or nothing: [Limiter.AllowAll], [Limiter.TakeAll], [Limiter.WaitAll]
//   - a cost that is known afterwards: [Limiter.Reserve], a [Reservation]; [Limiter.ReserveAll],
//     [Limiter.WaitReserve], [Limiter.WaitReserveAll], [Limiter.Charge], [Limiter.Refund]
//   - slots for a job: [Limiter.Acquire], a [Slot]; [Slot.Fence] for what only one job may use;
//     slots and tokens together: [Limiter.ReserveAll], [Reservation.Context]
//   - by class, with a floor for each: [Config.Classes], [Limiter.As], a [Classed]
//   - for one key that is used often: [Limiter.Key]
//
// # Operation
//
//   - what is left, and a full bucket for somebody who was locked out: [Limiter.Peek],
//     [Limiter.Reset]
//   - the end, which hands unused tokens back: [Limiter.Close]
//   - what this process has done, and what all have: [Limiter.Stats], [Fleet]
//   - how a bucket is divided: [Policy]
//   - while the store is away: [Outage]
//   - without Redis, for one process, tests and examples: [NewMemory]
//   - a store of your own: [Store]
//
// # When a call waits
//
// Requests for a key that a process uses once a second or more do not wait for the network: the
// lease is renewed ahead of need, by a few goroutines that all keys share. These requests wait for
// one round trip, at most [Config.Timeout], or for two behind an exchange of the key that is out:
//
//   - those of a key's first 10 ms,
//   - the first after a pause, which is one of Policy.MaxHold if requests are few and the
//     limit is generous,
//   - those for more tokens than the process's part of the bucket holds,
//   - all, where the limit is too small to be divided.
//
// [Guarantees]: https://github.com/seed13b07268/ration/blob/main/docs/guarantees.md
package hybrid
