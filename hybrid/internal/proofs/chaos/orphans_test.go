//go:build linux || darwin

package chaos

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// parentVariable makes the test binary one that is killed while it has a fleet
// on the server at this address.
const parentVariable = "RATION_CHAOS_PARENT"

// TestOrphans: nothing is left of a fleet whose parent was killed, not even a
// process that is stopped, and their links to the server are gone.
func TestOrphans(t *testing.T) {
	if addr := os.Getenv(parentVariable); addr != "" {
		beParent(t, addr)
	}
	t.Parallel()
	n := new(world).startNode(t)
	links := func() int {
		info, err := n.info(t.Context(), "clients")
		must(t, err)
		count, err := strconv.Atoi(info["connected_clients"])
		must(t, err)
		return count
	}
	before := links() // perhaps with one of the start, which goes
	cmd := exec.Command(os.Args[0], "-test.run=^TestOrphans$")
	cmd.Env = append(os.Environ(), parentVariable+"="+n.addr)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ready") || links() <= before {
		t.Fatalf("%q, %v, %d links", line, err, links())
	}
	must(t, cmd.Process.Kill())
	must(t, eventually(t.Context(), "no links are left", func() bool { return links() <= before }))
}

// beParent has a fleet of two, one of which is stopped, until it is killed.
func beParent(t *testing.T, addr string) {
	k := key{
		Name: "k", Limit: lease.Limit{Rate: 1000, Burst: 1000}, Offered: 100, Most: 1, Clump: 1,
	}
	h := &history{keys: []key{k}, processes: 2, timeout: timeout}
	f := launch(
		orders{Servers: []string{addr}, Keys: h.keys, Outage: hybrid.Deny, Timeout: timeout}, h,
		make([]map[string]string, 2))
	must(t, eventually(t.Context(), "both ask", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.lives[0].decisions) > 0 && len(h.lives[1].decisions) > 0
	}))
	must(t, f.running[0].cmd.Process.Signal(syscall.SIGSTOP))
	fmt.Println("ready")
	time.Sleep(time.Minute)
}
