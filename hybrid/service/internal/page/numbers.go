package page

import (
	"bytes"
	"slices"
	"strconv"
)

// A numbered is numbers of lines as text, or one that a mistake leads to.
type numbered struct {
	Text string
	Line int // 0: it is text
}

const (
	// spareNumbers are below the last line of a text: lines that are typed there have them before
	// the next check, and without scripts, too. Those below the end of the field are not seen.
	spareNumbers = 200

	// spareRows are below the last line in browsers that do not know field-sizing.
	spareRows = 10

	// mostNumbers take 600 kB. They are twice as many as the lines of the largest set of rules.
	mostNumbers = 100_000
)

// newVerdict is that of a text which nobody has checked: it has numbers beside its lines.
func newVerdict(text []byte) verdict {
	v := verdict{Rows: bytes.Count(text, []byte("\n")) + 1 + spareRows}
	v.number()
	return v
}

// number makes places of the lines with mistakes. Each of them is there once, though it may have
// several.
func (v *verdict) number() {
	last := min(v.Rows-spareRows+spareNumbers, mostNumbers)
	var lines []int
	for i := range v.Mistakes {
		m := &v.Mistakes[i]
		if m.Numbered = m.Line >= 1 && m.Line <= last; m.Numbered {
			lines = append(lines, m.Line)
		}
	}
	slices.Sort(lines)
	v.Numbers = nil
	text := []byte{}
	for line := range last {
		line++
		if _, wrong := slices.BinarySearch(lines, line); wrong {
			v.Numbers = append(v.Numbers, numbered{Text: string(text)}, numbered{Line: line})
			text = text[:0]
		} else {
			text = strconv.AppendInt(text, int64(line), 10)
		}
		text = append(text, '\n')
	}
	v.Numbers = append(v.Numbers, numbered{Text: string(text)})
}
