// Package changes proves that rules change safely while they are in force: eight processes limit
// by rules in Redis, under load, while these change each second and Redis is killed and restarted.
// There is nothing in it but tests, for Linux and macOS.
//
//	go test ./hybrid/rules/internal/proofs/changes -v             # 8 s
//	go test ./hybrid/rules/internal/proofs/changes -v -changes 1m
//
// # What is recorded
//
// As in package chaos, a process reads the clock that all share before and after each request, and
// writes both with the verdict and the limit into a pipe. It also tells when the rules in force
// have become others. The test knows when each change was called for and when it was answered.
//
// # How it is judged
//
//   - No window admits more than Burst + Rate*T, where the Rate at a time is the highest of those
//     in force within the last life of a lease, and of those that a process may not have seen to
//     be gone: a second. So a bucket that a change has refilled is a violation.
//   - Each process has the last rules in force within a second of the answer of the last change,
//     and limits by them. Times in which the machine did not run a process are left out.
//   - No change that was answered is lost, none is made twice, and versions have no gaps.
//   - Each process admits something, and each key a half of what the lowest limits would.
//
// On a machine that is too busy to run the processes, times and the least number of admissions are
// not judged, and the test says so. All else is.
package changes
