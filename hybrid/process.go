package hybrid

import (
	"crypto/rand"

	"github.com/seed13b07268/ration/local"
)

// A Process is one of those that share the limits of a store: each has an equal part of
// them in an outage, see Share. All Limiters of a program are one Process, unless their
// Config says otherwise. It is safe for concurrent use.
type Process struct{ name *local.Name }

// NewProcess returns a Process beside the program's own. It is for programs that play
// several processes, such as tests and simulations.
func NewProcess() *Process { return &Process{local.NewName(randomID())} }

// program is the Process of Limiters whose Config names none.
var program = NewProcess()

// randomID has 50 random bits: among 1000 processes that limit a key at a time, two have
// the same once in two billion fleets. Redis keeps it for each.
func randomID() string { return rand.Text()[:10] }
