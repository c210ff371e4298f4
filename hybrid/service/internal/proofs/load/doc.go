// Package load tests the program as its users have it, in tests: real processes on a real Redis,
// under load, killed and restarted, judged from outside.
package load
