package remote_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
)

// TestMain plays six tests side by side where there are fewer processors, unless -parallel says
// otherwise: most of their time they wait for a failover.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", fmt.Sprint(max(6, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
