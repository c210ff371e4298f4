// Package rules limits requests by rules that are data: documents in the format of
// envoyproxy/ratelimit, which change while programs run. docs/rules.md has the format.
//
// A request names a domain, which is an application, and descriptors: lists of keys and values. A
// Limiter finds the rule of each, and takes tokens of all of their limits, or of none, by package
// hybrid.
//
//	limiter, err := rules.New(store, rules.Files("rules"), rules.Config{})
//	...
//	defer limiter.Close(context.Background())
//	result, err := limiter.Take(ctx, "shop", rules.Of("user", user), rules.Of("address", address))
//
// # Promise
//
// A change of the documents is in force as a whole or not at all. Each process sees it within a
// second, if its Source does. No change of a limit, of the order or the names of rules, or of a
// domain's settings refills a bucket. Whatever the Source does, the last good rules stay.
//
// A trial has buckets of its own: when it comes into force, a key that it has not counted begins
// with a full one.
//
// A rule in shadow denies nothing, and no request waits for it.
//
// A Ban denies what it names until its end, whatever the rules are, and asks no store.
//
// It does not promise that all processes change at the same moment. While they differ, the lowest
// limit is in force (see hybrid.Config.LimitFor). Another kind of limit begins anew.
package rules
