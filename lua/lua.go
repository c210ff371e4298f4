// Package lua holds the Redis side of a ledger: scripts that keep one limited
// key and agree with package lease to the last bit (I5, TestTwins). Each states
// its keys, arguments, reply and units at its top; package remote runs them. What
// they share is said once, in layout.go and prelude.lua.
package lua

import _ "embed"

//go:generate go test ../lease -run TestConstants -update

// Exchange answers one request of a holder: the twin of lease.Ledger.Exchange.
var Exchange = assemble(exchange, ofBucket)

// Quota does so for a quota: the twin of lease.Ledger.quota.
var Quota = assemble(quota, ofWindow)

// Slots does so for slots: the twin of lease.Ledger.slots.
var Slots = assemble(slots, ofWindow)

// Sliding does so for a sliding window: the twin of lease.Ledger.sliding.
var Sliding = assemble(sliding, ofSliding)

// Inspect shows what a ledger knows and changes nothing: the twin of
// lease.Ledger.View.
var Inspect = assemble(inspect, 0)

//go:embed exchange.lua
var exchange string

//go:embed quota.lua
var quota string

//go:embed slots.lua
var slots string

//go:embed sliding.lua
var sliding string

//go:embed inspect.lua
var inspect string

// Publish keeps what a process tells of itself for a while, and Published shows what all
// of them do. No ledger has a part in it, and so no twin.
var (
	//go:embed publish.lua
	Publish string
	//go:embed published.lua
	Published string
)
