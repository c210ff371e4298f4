package lease

import "math"

// A calendar counts the leases that end in each slot of time, so that an
// exchange sees at once whether any has ended. A slot is counted as passed
// when all of it has, so an end is noticed up to a slot late, but then
// accounted for at its exact time. (One field with the earliest end would be
// simpler, but it goes stale when that holder renews, and every fleet would
// be scanned several times per refresh for nothing.)
//
// Lives that are longer than its fine slots reach, those of calm keys' leases,
// are counted in eras, slots of about such a life. Their ends are noticed
// up to an era late: nobody waits for what they hold, and who comes back in
// time, though its batch has lapsed, spares the key a look at all holders. Once
// the key is not calm any more others do wait for it, and what has crashed with
// the rate of a steady slice is looked for every eighth of an era.
type calendar struct {
	width float64 // of a slot, µs; see slotWidth
	count [calendarSlots + calendarEras]int
}

const (
	calendarSlots = 20
	calendarEras  = 3
	reach         = 18  // fine slots
	era           = 480 // fine slots
	eighth        = 60  // fine slots
)

// slotWidth is a quarter of MaxRefresh, so that no life but of a calm key's batch
// exceeds 17 slots, or what makes an era as long as such a batch lives.
func slotWidth(p Policy) float64 {
	return max(math.Floor(micros(p.MaxRefresh)/4), math.Ceil(micros(p.MaxHold)/era))
}

func (c *calendar) add(r *record, n int) {
	if end := r.end(); end-r.at <= c.width*reach {
		c.count[int64(math.Floor(end/c.width))%calendarSlots] += n
		return
	}
	c.count[calendarSlots+int64(math.Floor(r.end()/(c.width*era)))%calendarEras] += n
}

// due reports whether a lease ended in a slot that has passed between at and t,
// or, where somebody may be waiting for it, perhaps in an era that has not.
func (c *calendar) due(at, t float64, wanted bool) bool {
	if wanted && math.Floor(at/(c.width*eighth)) < math.Floor(t/(c.width*eighth)) {
		for _, n := range c.count[calendarSlots:] {
			if n > 0 {
				return true
			}
		}
	}
	return c.passed(at, t, c.width, 0, calendarSlots) || c.passed(at, t, c.width*era, calendarSlots, calendarEras)
}

// passed looks at slots of a width, n of them from first on.
func (c *calendar) passed(at, t, width float64, first, n int64) bool {
	last := math.Floor(t / width)
	for slot := max(math.Floor(at/width), last-float64(n)); slot < last; slot++ {
		if c.count[first+int64(slot)%n] > 0 {
			return true
		}
	}
	return false
}
