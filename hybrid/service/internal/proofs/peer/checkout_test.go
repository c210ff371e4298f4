//go:build head

package peer

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/redis"
)

// PipeDo is as the head of envoyproxy/ratelimit has it.
func (m *memory) PipeDo(context.Context, redis.Pipeline) error { return m.do() }

var update = flag.Bool("update", false, "write "+recording)

// TestRecording: the recording is of this checkout.
func TestRecording(t *testing.T) {
	now := &clock{}
	var lines strings.Builder
	they := newBoth(strings.ReplaceAll(headDocument, " KIND", ""), now)
	synctest.Test(t, func(t *testing.T) {
		history(t, now, func(_ int, in *pb.RateLimitRequest) {
			out, err := they.of(in).ShouldRateLimit(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&lines, short(out))
		})
	})
	if *update {
		if err := os.WriteFile(recording, []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(recording)
	if err != nil || string(text) != lines.String() {
		t.Errorf("%s is of another version: write it anew with -update (%v)", recording, err)
	}
}

// of is the one that counts all where limits in quota mode are asked for.
func (b both) of(in *pb.RateLimitRequest) pb.RateLimitServiceServer {
	if key := in.GetDescriptors()[0].GetEntries()[0].GetKey(); key == "backend" || key == "service" {
		return b.count
	}
	return b.stop
}

// both are theirs, with the setting stop and without. With it, as one of the limits in quota mode
// denies, theirs does not count on the others.
type both struct{ stop, count pb.RateLimitServiceServer }

func newBoth(text string, now *clock) both {
	m := &memory{counts: map[string]uint64{}}
	return both{theirsOf(text, m, now, true), theirsOf(text, m, now, false)}
}
