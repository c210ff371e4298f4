package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/simtest"
)

// hook is a context that ends when it has been looked at so often: an interrupt
// at a known moment of the simulation.
type hook struct {
	context.Context
	cancel context.CancelCauseFunc
	looks  int
}

func interruptAfter(t *testing.T, looks int) *hook {
	ctx, cancel := context.WithCancelCause(t.Context())
	return &hook{ctx, cancel, looks}
}

func (h *hook) Err() error {
	if h.looks--; h.looks <= 0 {
		h.cancel(errors.New("a signal")) // as signal.NotifyContext has a cause
	}
	return h.Context.Err()
}

// An interrupt in the middle ends the program with code 130 and with what is
// known by then.
func TestInterrupt(t *testing.T) {
	longform.None(t)
	simtest.Long(t)
	old := runtime.GOMAXPROCS(1) // the hook is for one worker
	defer runtime.GOMAXPROCS(old)
	page, tuned := filepath.Join(t.TempDir(), "page.html"), filepath.Join(t.TempDir(), "tuned.html")
	for _, line := range []string{
		"run -duration 1000h", "run -json -duration 1000h", "run -duration 1000h -html " + page, "run clients -duration 1000h",
		"sweep -over batch=10,20 -duration 1000h", "tune -duration 1s -html " + tuned,
	} {
		looks := 6
		if strings.HasPrefix(line, "tune") {
			looks = 300 // some trials
		}
		code, stdout, stderr := sim(interruptAfter(t, looks), line)
		if code != 130 || !strings.HasSuffix(stderr, "interrupted\n") || stdout == "" {
			t.Errorf("sim %s: exit code %d, %d bytes: %s", line, code, len(stdout), stderr)
			continue
		}
		switch {
		case strings.Contains(line, "json"):
			if d := decode(t, stdout); !d.Interrupted || len(d.Variants[0].Results) != 1 || d.Variants[0].Results[0].Requests == 0 {
				t.Errorf("%+v", d)
			}
		case !strings.Contains(stdout, "INTERRUPTED"):
			t.Errorf("sim %s does not say so:\n%s", line, stdout)
		case strings.HasPrefix(line, "tune"): // what was played once is on the front whatever it did
			rows, alone := strings.Count(stdout, "burst share 0."), "that were played once, which is too rarely to be beaten"
			if rows > 12 || !strings.Contains(stdout, alone) { // with two in what to paste
				t.Errorf("sim %s: %d leases, %q:\n%s", line, rows, alone, stdout)
			}
		}
	}
	for _, page := range []string{page, tuned} {
		if info, err := os.Stat(page); err != nil || info.Size() == 0 {
			t.Errorf("page: %v", err)
		}
	}

	// Complete replications are kept, the one under way is not.
	d := decode(t, func() string {
		_, stdout, _ := sim(interruptAfter(t, 40), "run -json -duration 10s -warmup 5s -replications 1000")
		return stdout
	}())
	if n := len(d.Variants[0].Results); !d.Interrupted || n < 2 || n > 30 {
		t.Errorf("%d replications", n)
	}
	for _, r := range d.Variants[0].Results {
		if r.Seconds != 5 {
			t.Errorf("replication %d has only %v s", r.Replication, r.Seconds)
		}
	}

	// Nothing is known yet: nothing is printed.
	for _, line := range []string{"run", "compare", "tune", "sweep -over batch=1,2"} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if code, stdout, _ := sim(ctx, line); code != 130 || stdout != "" {
			t.Errorf("sim %s: exit code %d, %q", line, code, stdout)
		}
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if code, _, stderr := sim(ctx, "run"); code != 130 {
		t.Errorf("after a deadline: exit code %d, %s", code, stderr)
	}
}

// fullDisk takes so many bytes.
type fullDisk struct{ left int }

var errFull = errors.New("no space left")

func (f *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), f.left)
	f.left -= n
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

// What cannot be printed is an error, wherever it breaks off.
func TestFullDisk(t *testing.T) {
	for _, line := range []string{"-h", "run -h", "scenarios", "scenarios steady", "run" + short, "run -json" + short, "compare" + short} {
		for _, space := range []int{0, 100} {
			var stderr bytes.Buffer
			if code := dispatch(t.Context(), strings.Fields(line), &fullDisk{space}, &stderr); code != 1 || strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), errFull.Error()) {
				t.Errorf("sim %s with %d bytes of space: exit code %d: %s", line, space, code, &stderr)
			}
		}
	}
}
