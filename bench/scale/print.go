package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

func (r *Report) print(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s\n", r.Command, r.Machine)
	for _, table := range []func(io.Writer){
		r.printKeys, r.printHolders, r.printKinds, r.printRenewals, r.printSeveral,
		r.printGoroutines, r.printDistance, r.printCluster, r.printFleet, r.printLines,
	} {
		table(w)
	}
	return nil
}

func (r *Report) printKeys(w io.Writer) {
	if len(r.Keys) == 0 {
		return
	}
	header(w, "keys", "Limiter.Allow", "map, RWMutex, rate.Limiter", "ratio", "picking a key",
		"ration, bytes a key", "rate.Limiter, bytes a key")
	for _, x := range r.Keys {
		fmt.Fprintf(w, "| %s | %.0f ns | %.0f ns | %.2f | %.0f ns | %s | %s |\n",
			whole(float64(x.Keys)), x.Ration, x.Map, (x.Ration-x.Pick)/(x.Map-x.Pick), x.Pick,
			whole(x.RationBytes), whole(x.MapKey))
	}
}

func (r *Report) printHolders(w io.Writer) {
	if len(r.Holders) == 0 {
		return
	}
	header(w, "holders", "exchange, script", "plain bucket, script", "ratio",
		"exchange, all CPU", "plain bucket, all CPU", "exchange alone", "plain bucket alone",
		"bytes a key")
	for _, x := range r.Holders {
		fmt.Fprintf(w, "| %s | %.0f µs | %.0f µs | %.1f | %.0f µs | %.0f µs | "+
			"%.0f µs | %.0f µs | %s |\n",
			whole(float64(x.Holders)), x.Exchange, x.Plain, x.Ratio, x.ExchangeCPU, x.PlainCPU,
			x.Alone[0], x.PlainAlone, whole(x.Bytes))
	}
}

// printKinds is what an exchange of all kinds costs the server, by holders.
func (r *Report) printKinds(w io.Writer) {
	if len(r.Holders) == 0 {
		return
	}
	columns := []string{"holders"}
	for _, k := range leased {
		columns = append(columns, k.name)
	}
	header(w, append(columns, "plain bucket")...)
	for _, x := range r.Holders {
		fmt.Fprintf(w, "| %s |", whole(float64(x.Holders)))
		for _, cost := range x.Alone {
			fmt.Fprintf(w, " %.0f µs |", cost)
		}
		fmt.Fprintf(w, " %.0f µs |\n", x.PlainAlone)
	}
}

func (r *Report) printRenewals(w io.Writer) {
	if len(r.Renewals) == 0 {
		return
	}
	header(w, "holders", "exchanges/s, 0.95 of the limit", "a core has for each",
		"exchanges/s, twice the limit", "a core has for each")
	for _, x := range r.Renewals {
		fmt.Fprintf(w, "| %s | %s | %s µs | %s | %s µs |\n", whole(float64(x.Processes)),
			whole(x.Calls), whole(1e6/x.Calls), whole(x.Overload), whole(1e6/x.Overload))
	}
}

func (r *Report) printSeveral(w io.Writer) {
	if len(r.Kinds) == 0 {
		return
	}
	columns := []string{"kind", "Allow"}
	for _, n := range several {
		columns = append(columns, fmt.Sprint("AllowAll of ", n))
	}
	header(w, columns...)
	for _, x := range r.Kinds {
		fmt.Fprintf(w, "| %s | %.0f ns |", x.Kind, x.One)
		for i := range several {
			if i < len(x.All) {
				fmt.Fprintf(w, " %.0f ns |", x.All[i])
			} else {
				fmt.Fprint(w, " |")
			}
		}
		fmt.Fprintln(w)
	}
}

func (r *Report) printGoroutines(w io.Writer) {
	if len(r.Goroutines) == 0 {
		return
	}
	header(w, "GOMAXPROCS", "goroutines", "ration, one key", "ration, a key each",
		"one rate.Limiter", "a rate.Limiter each", "clock reads", "cores they had")
	for _, x := range r.Goroutines {
		fmt.Fprintf(w, "| %d | %s | %.1f M/s | %.1f M/s | %.1f M/s | %.1f M/s | %.1f M/s | %.1f |\n",
			x.Procs, whole(float64(x.Goroutines)), x.Hot/1e6, x.Apart/1e6, x.Shared/1e6, x.Each/1e6,
			x.Clock/1e6, x.Cores)
	}
}

func (r *Report) printDistance(w io.Writer) {
	if len(r.Distance) == 0 {
		return
	}
	header(w, "added", "hot key p50", "p99", "p99.9", "denied", "exchanges/s",
		"exchanges/decision", "new key's first", "a script each, p50", "p99")
	for _, x := range r.Distance {
		fmt.Fprintf(w, "| %v | %s | %s | %s | %.2f %% | %.1f | %.5f | %s | %s | %s |\n",
			x.Added, short(x.P50), short(x.P99), short(x.P999), 100*x.Denied, x.Exchanges,
			x.PerDecision, short(x.Cold), short(x.Plain), short(x.PlainP99))
	}
}

func (r *Report) printCluster(w io.Writer) {
	if len(r.Cluster) == 0 {
		return
	}
	header(w, "masters", "exchanges/s here", "script", "CPU of all nodes",
		"of the busiest node", "of the client", "the same alone", "pipelines per batch",
		"a batch", "keys per node", "calls per node")
	for _, x := range r.Cluster {
		var keys, calls []string
		for i := range x.Keys {
			keys = append(keys, whole(float64(x.Keys[i])))
			calls = append(calls, fmt.Sprintf("%.1f %%", 100*x.Calls[i]))
		}
		fmt.Fprintf(w, "| %d | %s | %.1f µs | %.1f µs | %.1f µs | %.1f µs | %.0f µs | %.2f | "+
			"%.1f ms | %s | %s |\n",
			x.Masters, whole(x.Rate), x.Script, x.CPU, x.Busiest, x.Client, x.Alone, x.Trips,
			x.Batch, strings.Join(keys, " / "), strings.Join(calls, " / "))
	}
}

func (r *Report) printFleet(w io.Writer) {
	if len(r.Fleet) == 0 {
		return
	}
	header(w, "policy", "processes", "requests/s of each", "exchanges/s, 0.95 of the limit",
		"of each process", "exchanges/s, twice it", "utilisation", "fairness", "worst process",
		"excess")
	for _, x := range r.Fleet {
		excess := "none"
		if x.Excess > 0 {
			excess = fmt.Sprintf("%.2f", x.Excess)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %.1f | %s | %.2f %% | %.4f | %.3f | %s |\n",
			x.Policy, whole(float64(x.Processes)), whole(x.Rate), whole(x.Calls),
			x.Calls/float64(x.Processes), whole(x.Overload), 100*x.Utilisation, x.Fairness,
			x.Worst, excess)
	}
}

func (r *Report) printLines(w io.Writer) {
	if len(r.Lines) == 0 {
		return
	}
	header(w, "operation", "one goroutine", "two on one line, each", "two on a line each, each",
		"cores they had")
	for _, x := range r.Lines {
		fmt.Fprintf(w, "| %s | %.1f ns | %.1f ns | %.1f ns | %.1f |\n", x.Operation, x.One,
			x.Same, x.Apart, x.Cores)
	}
	for _, x := range r.Lines {
		if x.Operation == atomicAdd {
			printModel(w, x)
		}
	}
}

// header begins a table.
func header(w io.Writer, columns ...string) {
	rule := strings.Repeat("---|", len(columns))
	fmt.Fprintf(w, "\n| %s |\n|%s\n", strings.Join(columns, " | "), rule)
}

// whole writes a number with commas between thousands.
func whole(x float64) string {
	s := fmt.Sprintf("%.0f", math.Abs(x))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// short writes a time with three digits.
func short(d time.Duration) string {
	switch {
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d.Nanoseconds())
	case d < time.Millisecond:
		return fmt.Sprintf("%.3g µs", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.3g s", d.Seconds())
}
