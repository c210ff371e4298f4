package main

import (
	"fmt"
	"io"
	"runtime"
)

func printHead(w io.Writer, o options) {
	fmt.Fprintf(w, "%d cores, %s %s/%s; %v for each load after %v\n\n", runtime.NumCPU(),
		runtime.Version(), runtime.GOOS, runtime.GOARCH, o.time, o.warm)
	fmt.Fprintln(w, "| load | design | critical | normal | batch | of the ideal | "+
		"a floor lacks in 2 s | in the mean | calls/s | beside no classes | excess | windows |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|---|")
}

func printRows(w io.Writer, load float64, rows []row) {
	base := 0.0
	for _, r := range rows {
		if r.design == "no classes" {
			base = r.calls
		}
	}
	for _, r := range rows {
		fmt.Fprintf(w, "| %v | %s |", load, r.design)
		for _, share := range r.shares {
			fmt.Fprintf(w, " %.3f |", share)
		}
		fmt.Fprintf(w, " %.3f | %.3f | %.3f | %.0f | %.2f | %.1f | %d |\n", r.used, r.worst, r.mean,
			r.calls, r.calls/base, r.excess, r.windows)
	}
}
