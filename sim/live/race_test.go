//go:build race

package live

// race says that the race detector is on.
const race = true
