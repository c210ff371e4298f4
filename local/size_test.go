package local

import (
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/seed13b07268/ration/lease"
)

// TestEntrySize: what a key in use takes goes by its Entry, in which its Holder is. Go gives
// objects of this size 768 bytes, 8 of them for itself, and the next larger ones 896.
func TestEntrySize(t *testing.T) {
	const most = 768 - 8
	if size := unsafe.Sizeof(Entry{}); math.MaxInt == math.MaxInt64 && size > most {
		t.Errorf("an Entry takes %d bytes, at most %d are wanted", size, most)
	}
	// A map keeps a parking, as it is above 128 bytes, in an object of its own, of 160 or 176.
	if size := unsafe.Sizeof(parking{}); math.MaxInt == math.MaxInt64 && size > 160 {
		t.Errorf("a parking takes %d bytes, at most 160 are wanted", size)
	}
	table := NewTable(Config{
		Holder: "h", Timeout: time.Second, MaxKeys: 10, Idle: time.Minute, Shares: NewShares(),
	})
	limit, now := lease.Limit{Rate: 1000, Burst: 1000}, time.Hour
	e := table.Open(now, "k", limit)
	e.Take(now, 1, 0, false) // waits
	q, _, _ := e.Request(now)
	e.Answer(now, q, new(lease.Ledger).Exchange(now, q), nil)
	if e.Take(now, 1, 0, false); e.extra != nil || e.count.Admitted+table.common.ledger.Admitted == 0 {
		t.Errorf("an entry has what few need: %+v", e.extra)
	}
	e.decided(1, true)
	if e.extra == nil || e.extra.count.Outage.Admitted != 1 {
		t.Error("a verdict of the outage policy is not counted")
	}
}
