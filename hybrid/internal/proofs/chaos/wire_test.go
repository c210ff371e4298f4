//go:build linux || darwin

package chaos

import (
	"bufio"
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/remote"
)

// TestReadMessage: messages are told apart where they end, and stay as they are.
func TestReadMessage(t *testing.T) {
	messages := []string{
		"+OK\r\n", "-ERR no\r\n", ":1\r\n", "_\r\n", ",1.5\r\n", "#t\r\n",
		"(12345678901234567890\r\n",
		"$5\r\n+a\r\nb\r\n", "$0\r\n\r\n", "$-1\r\n", "=5\r\ntxt:a\r\n", "!3\r\nERR\r\n",
		"*0\r\n", "*-1\r\n", "*2\r\n$1\r\na\r\n*1\r\n:1\r\n", "~1\r\n+a\r\n",
		">2\r\n+push\r\n:1\r\n", "%1\r\n+a\r\n*2\r\n:1\r\n:2\r\n",
		"*3\r\n$7\r\nevalsha\r\n$1\r\na\r\n$1\r\n0\r\n",
	}
	r := bufio.NewReader(strings.NewReader(strings.Join(messages, "")))
	for _, want := range messages {
		got, err := readMessage(r)
		if string(got) != want || err != nil {
			t.Fatalf("%q, %v, want %q", got, err, want)
		}
		if isScript(got) != strings.Contains(want, "eval") ||
			isPush(got) != strings.Contains(want, "push") {
			t.Errorf("%q is taken for something else", want)
		}
	}
	for _, bad := range []string{"", "\r\n", "PING\r\n", "$x\r\n", "*1\r\n", "$3\r\na", "*1\r\n?\r\n"} {
		if got, err := readMessage(bufio.NewReader(strings.NewReader(bad))); err == nil {
			t.Errorf("%q was read as %q", bad, got)
		}
	}
}

// TestFates: what becomes of a script that counts how often it runs.
func TestFates(t *testing.T) {
	n := new(world).startNode(t)
	const count = "return redis.call('INCR', KEYS[1])"
	for _, c := range []struct {
		name     string
		fate     fate
		answered bool
		runs     string
	}{
		{"deliver", deliver, true, "1"},
		{"lose request", loseRequest, false, ""},
		{"lose reply", loseReply, false, "1"},
		{"repeat", repeat, true, "2"},
		{"repeat late", repeatLate, true, "2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sum := &messageCount{}
			l := &link{choose: func() fate { return c.fate }, count: sum, random: rand.New(rand.NewPCG(1, 1))}
			options := remote.Options(l.listen(t, n.addr))
			options.ReadTimeout = time.Second // for what is lost
			client := redis.NewClient(options)
			defer client.Close()
			ctx := context.Background()
			if err := client.Ping(ctx).Err(); err != nil {
				t.Fatal(err) // only scripts are lost
			}
			if got, err := client.Eval(ctx, count, []string{c.name}).Int(); (err == nil) != c.answered || c.answered && got != 1 {
				t.Errorf("answered %v, %v", got, err)
			}
			must(t, eventually(ctx, "it has run as often as it should", func() bool {
				return n.Get(ctx, c.name).Val() == c.runs
			}))
			if err := client.Ping(ctx).Err(); err != nil {
				t.Errorf("afterwards: %v", err) // the answers are those to the right requests
			}
			lost, again := sum.lostRequests.Load()+sum.lostReplies.Load(), sum.repeated.Load()+sum.late.Load()
			if lost != b2i(!c.answered) || again != b2i(c.runs == "2") {
				t.Errorf("%d counted as lost, %d as repeated", lost, again)
			}
		})
	}
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// TestCut: what is sent over a link that is cut arrives when it is whole again, though
// nobody waits for it any more.
func TestCut(t *testing.T) {
	n := new(world).startNode(t)
	l := &link{choose: func() fate { return deliver }, count: &messageCount{}}
	client := redis.NewClient(remote.Options(l.listen(t, n.addr)))
	defer client.Close()
	ctx := t.Context()
	must(t, client.Ping(ctx).Err())
	l.cut.Store(true)
	if err := client.Incr(ctx, "k").Err(); err == nil {
		t.Error("answered over a link that is cut")
	}
	if got := n.Exists(ctx, "k").Val(); got != 0 {
		t.Error("it got through")
	}
	l.cut.Store(false)
	must(t, eventually(ctx, "it arrives", func() bool { return n.Get(ctx, "k").Val() == "1" }))

	const delay = 20 * time.Millisecond
	l.delay.Store(int64(delay))
	start := time.Now()
	must(t, client.Incr(ctx, "k").Err())
	if took := time.Since(start); took < 2*delay {
		t.Errorf("there and back in %v, delayed by %v each way", took, delay)
	}
}
