// Classes measures what becomes of classes of requests on a real Redis, beside other designs: the
// same arrivals without classes, with a part of the limit that is kept idle for higher classes, and
// with one limit for each class.
//
//	go run ./classes          a table as markdown, in 3 to 8 minutes
//
// It starts a redis-server on loopback, or the server that RATION_SERVER names. The fleet of each
// design is four limiters, each with connections of its own. Each arrival is offered to all designs
// in the same moment. Windows in which the machine stalled are not judged. A load of which few are
// judged is repeated, up to twice.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/seed13b07268/ration/remote/redistest/redisserver"
)

type options struct {
	loads []float64     // parts of the limit
	warm  time.Duration // is not counted
	time  time.Duration // of each load, whole windows
}

func main() {
	o := options{[]float64{0.5, 1, 2, 5}, 4 * time.Second, 30 * time.Second}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "classes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, w io.Writer) error {
	server, err := redisserver.Start(redisserver.Program())
	if err != nil {
		return err
	}
	defer server.Kill()
	printHead(w, o)
	for i, load := range o.loads {
		s := scene{
			seed: uint64(i + 1), load: load, warm: o.warm, time: o.time, addr: server.Addr,
		}
		rows, err := s.calmest(ctx)
		if err != nil {
			return fmt.Errorf("load %v: %w", load, err)
		}
		printRows(w, load, rows)
	}
	return nil
}
