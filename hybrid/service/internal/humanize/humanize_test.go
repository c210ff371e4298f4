package humanize

import "testing"

func TestCount(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 999: "999", 1000: "1,000", 12_345: "12,345", 1<<64 - 1: "18,446,744,073,709,551,615",
	} {
		if got := Count(n); got != want {
			t.Errorf("%d: %q, not %q", n, got, want)
		}
	}
}
