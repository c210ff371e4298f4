// Package lua holds the Redis side of a ledger: scripts that keep one limited
// key and agree with package lease to the last bit (I5, TestTwins). Each states
// its keys, arguments, reply and units at its top; package remote runs them. What
// they share is said once, in layout.go and prelude.lua.
//
// The scripts of a ledger are assembled by go generate (assemble_test.go), and no program
// that imports the package does any of that work (hybrid.TestStartup).
package lua

import _ "embed"

//go:generate go test ../lease -run TestConstants -update
//go:generate go test . -run ^$ -update

var (
	// Exchange answers one request of a holder: the twin of lease.Ledger.Exchange.
	//
	//go:embed generated/exchange.lua
	Exchange string

	// Quota does so for a quota: the twin of lease.quotaLedger.
	//
	//go:embed generated/quota.lua
	Quota string

	// Slots does so for slots: the twin of lease.slotsLedger.
	//
	//go:embed generated/slots.lua
	Slots string

	// Sliding does so for a sliding window: the twin of lease.slidingLedger.
	//
	//go:embed generated/sliding.lua
	Sliding string

	// Inspect shows what a ledger knows and changes nothing: the twin of
	// lease.Ledger.View.
	//
	//go:embed generated/inspect.lua
	Inspect string
)

// Publish keeps what a process tells of itself for a while, and Published shows what all
// of them do. No ledger has a part in it, and so no twin.
var (
	//go:embed publish.lua
	Publish string
	//go:embed published.lua
	Published string
)
