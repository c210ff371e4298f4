package main

import (
	"fmt"
	"io"

	"github.com/guptarohit/asciigraph"

	"github.com/seed13b07268/ration/sim/engine"
)

const plotWidth, plotHeight = 64, 10

// printPlot draws one replication over time: what was admitted, and what an
// ideal limit would have.
func printPlot(w io.Writer, r *engine.Result) {
	t := &r.Timeline
	if len(t.Admitted) < 2 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", asciigraph.PlotMany([][]float64{t.Offered, t.Ideal, t.Admitted},
		asciigraph.Width(plotWidth), asciigraph.Height(plotHeight), asciigraph.Precision(0), asciigraph.LowerBound(0),
		asciigraph.SeriesColors(asciigraph.DimGray, asciigraph.Blue, asciigraph.Green),
		asciigraph.SeriesLegends("offered", "ideal", "admitted"),
		asciigraph.Caption(fmt.Sprintf("tokens/s over %.4g s, first replication", float64(len(t.Admitted))*t.Step)),
	))
}
