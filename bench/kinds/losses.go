package main

import (
	"fmt"
	"math"
	"strings"
)

// printLosses lists each figure in which a peer does better than ration, the first subject.
func printLosses(b *strings.Builder, rows []row) {
	var lines []string
	for _, ours := range rows {
		if ours.subject != "ration" || ours.refused != "" {
			continue
		}
		for _, c := range columns {
			if best, ok := bestPeer(c, ours, rows); ok {
				lines = append(lines, fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", ours.load,
					ours.place, c.name, cell(c, ours), cell(c, best), best.subject))
			}
		}
	}
	if len(lines) == 0 {
		return
	}
	b.WriteString("\n| ration loses | Redis | figure | ration | best | who |\n|")
	b.WriteString(strings.Repeat("---|", 6) + "\n" + strings.Join(lines, ""))
}

// bestPeer is the peer that does best under the same load, if it does better than ours. Nobody is
// within a limit more than another, and more than the ideal admits is not better.
func bestPeer(c column, ours row, rows []row) (best row, ok bool) {
	value := func(r row) float64 {
		switch x := r.figures[c.figure]; c.figure {
		case most:
			return max(1, x)
		case used:
			return min(1, x)
		default:
			return x
		}
	}
	for _, r := range rows {
		same := r.load == ours.load && r.place == ours.place
		if !same || r.subject == ours.subject || r.refused != "" {
			continue
		}
		x, y := value(r), value(ours)
		if !c.more {
			x, y = -x, -y
		}
		if !(x-y > c.slack*math.Abs(y)) { // nor if one is NaN
			continue
		}
		if ok && (value(r) > value(best)) != c.more {
			continue
		}
		best, ok = r, true
	}
	return best, ok
}
