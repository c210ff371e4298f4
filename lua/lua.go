// Package lua holds the Redis side of a ledger: scripts that keep one limited
// key and agree with package lease to the last bit (I5, TestTwins). Each states
// its keys, arguments, reply and units at its top; package remote runs them.
package lua

import _ "embed"

// Exchange answers one request of a holder: the twin of lease.Ledger.Exchange.
//
//go:embed exchange.lua
var Exchange string

// Inspect shows what a ledger knows and changes nothing: the twin of
// lease.Ledger.View.
//
//go:embed inspect.lua
var Inspect string
