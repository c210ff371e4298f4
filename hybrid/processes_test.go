package hybrid_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// The fleet of TestProcesses: this test binary, executed again.
const (
	fleetSize    = 8
	fleetOffered = 500                   // requests/s of each process
	fleetStep    = 50 * time.Millisecond // the longest that a process takes for running
)

var fleetLimit = hybrid.PerSecond(1000).WithBurst(200)

// TestMain runs a process of the fleet instead of the tests when it is told to.
func TestMain(m *testing.M) {
	if addr := os.Getenv("RATION_FLEET_REDIS"); addr != "" {
		if err := fleetProcess(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// fleetProcess asks at a steady pace until it has run for its time, and writes each admission to
// standard output: the times before and after the call, ns. While the machine stands still, so does
// the process' time.
func fleetProcess(addr string) error {
	opt := remote.Options(addr)
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout = patient, patient, patient
	rdb := redis.NewClient(opt)
	defer rdb.Close()
	l, err := hybrid.New(remote.New(rdb), hybrid.Config{Limit: fleetLimit, Timeout: patient})
	if err != nil {
		return err
	}
	length, err := time.ParseDuration(os.Getenv("RATION_FLEET_TIME"))
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	ran, last, offered := time.Duration(0), time.Now(), 0
	for ran < length {
		now := time.Now()
		ran, last = ran+min(now.Sub(last), fleetStep), now
		for ; float64(offered) < ran.Seconds()*fleetOffered; offered++ {
			before := time.Now()
			d, err := l.Take(ctx, "k", 1)
			after := time.Now()
			if err == nil && d.Allowed {
				if d.Source == hybrid.OutagePolicy {
					return fmt.Errorf("an outage while Redis is there: %+v", l.Stats())
				}
				binary.Write(out, binary.LittleEndian, [2]int64{before.UnixNano(), after.UnixNano()})
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
		time.Sleep(time.Millisecond) // paces real traffic; nothing waits for it
	}
	if err := l.Close(ctx); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d %d\n", offered, l.Stats().Exchanges)
	return nil
}

// TestProcesses is I1 where it counts: eight processes on a real Redis share a
// limit at four times its rate. In mid-run one is killed and the scripts are
// flushed.
func TestProcesses(t *testing.T) {
	long(t)
	server, length := redistest.Start(t), longform.Of(2*time.Second, 6*time.Second)
	type process struct {
		cmd  *exec.Cmd
		out  []byte
		info []byte
		done chan error
	}
	var fleet []*process
	for i := range fleetSize {
		p := &process{cmd: exec.Command(os.Args[0]), done: make(chan error, 1)}
		runs := length
		if i == 0 {
			runs = time.Hour // it is killed
		}
		p.cmd.Env = append(os.Environ(), "RATION_FLEET_REDIS="+server.Addr,
			"RATION_FLEET_TIME="+runs.String())
		stdout, err := p.cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		stderr, err := p.cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			p.out, _ = io.ReadAll(stdout)
			p.info, _ = io.ReadAll(stderr)
			p.done <- p.cmd.Wait()
		}()
		fleet = append(fleet, p)
	}
	t.Cleanup(func() {
		for _, p := range fleet {
			p.cmd.Process.Kill()
		}
	})

	time.Sleep(length / 3) // other processes run meanwhile, in real time
	if err := fleet[0].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(length / 3)
	client := server.Client()
	defer client.Close()
	if err := client.ScriptFlush(ctx).Err(); err != nil {
		t.Fatal(err)
	}

	var admissions [][2]int64
	late, offered, exchanges := 0, 0, 0
	for i, p := range fleet {
		err := <-p.done
		if killed := i == 0; killed != (err != nil) {
			t.Errorf("process %d: %v, %s", i, err, p.info)
		}
		var o, e int
		fmt.Sscan(string(p.info), &o, &e)
		offered, exchanges = offered+o, exchanges+e
		for ; len(p.out) >= 16; p.out = p.out[16:] {
			a := [2]int64{int64(binary.LittleEndian.Uint64(p.out)), int64(binary.LittleEndian.Uint64(p.out[8:]))}
			if a[1]-a[0] > int64(2*time.Millisecond) {
				late++ // it waited for the ledger, or was held up
			}
			admissions = append(admissions, a)
		}
	}
	least := 0.85 * (float64(fleetLimit.Burst) + fleetLimit.Rate*length.Seconds())
	if n := len(admissions); float64(n) < least {
		t.Fatalf("%d admissions, not %.0f", n, least)
	}

	// The level of a leaky bucket is the worst excess of all windows that end
	// now. Each admission counts at the end of its call.
	slices.SortFunc(admissions, func(a, b [2]int64) int { return int(a[1] - b[1]) })
	level, worst, last := 0.0, 0.0, admissions[0][1]
	for _, a := range admissions {
		level = max(level-fleetLimit.Rate*float64(a[1]-last)/1e9, 0) + 1
		last = a[1]
		worst = max(worst, level-float64(fleetLimit.Burst))
	}
	took := float64(last-admissions[0][1]) / 1e9
	t.Logf("%d processes, one killed, scripts flushed once: %d of about %d requests admitted in %.1f s (%d of them after more than 2 ms), Burst + Rate*T is %.0f; worst excess %.1f tokens; %d exchanges, %s per request",
		fleetSize, len(admissions), offered, took, late, float64(fleetLimit.Burst)+fleetLimit.Rate*took, worst, exchanges, strconv.FormatFloat(float64(exchanges)/float64(max(offered, 1)), 'f', 3, 64))

	if worst > fleetSize { // the last call of each process may have been decided long before its end
		t.Errorf("excess %.1f, allowed %d", worst, fleetSize)
	}
}
