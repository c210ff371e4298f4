// Package peer compares the service with envoyproxy/ratelimit, in tests: the answers to the same
// requests by the same rules, and how many of them each answers in a second.
package peer
