// Package peer compares the service with envoyproxy/ratelimit, in tests: the answers to the same
// requests by the same rules, and how many of them each answers in a second.
//
// TestAnswers compares with the newest release that the module proxy has, TestRecorded with
// recorded answers of commit f2fb15770f7f of July 2026, and TestFiles, by its own rules, with a
// checkout:
//
//	git clone https://github.com/envoyproxy/ratelimit ../ratelimit
//	export GOWORK=$PWD/../head.work
//	go work init ./hybrid/service/internal/proofs/peer ../ratelimit
//	go -C hybrid/service/internal/proofs/peer test -tags head -long -v .
package peer
