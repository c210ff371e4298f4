// Package humanize writes numbers for people.
package humanize

import "strconv"

// Count writes a number with commas between thousands: 12,345.
func Count(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
