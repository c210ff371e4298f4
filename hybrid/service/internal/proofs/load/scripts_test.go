//go:build linux

package load

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/seed13b07268/ration/remote/redistest"
)

var scripts = flag.Duration("scripts", 4*time.Second, "how long TestScripts asks. It measures in "+
	"the second half; below 2m, figures are those of a start and held to nothing")

// visitors send the requests of each scene, each with an address of its own.
const visitors = 20

// An asked is a scene of TestScripts: what requests name, and the rules.
type asked struct {
	name        string
	descriptors []string
	burst       int // of an address, if not the example's 50
}

var scenes = []asked{
	{"address", []string{"address"}, 0},
	{"user", []string{"user"}, 0},
	{"endpoint", []string{"endpoint"}, 0},
	{"all three", []string{"address", "user", "endpoint"}, 0},
	{"address, burst 500", []string{"address"}, 500},
	{"all three, burst 500", []string{"address", "user", "endpoint"}, 500},
}

// rates are requests/s of each visitor.
var rates = []float64{0.2, 1, 5}

// A domain is a scene at a rate.
type domain struct {
	name    string
	scene   asked
	rate    float64
	sent    atomic.Int64
	failed  atomic.Int64
	scripts float64 // for each request
}

// ask sends requests of one visitor at random times until ctx ends.
func (d *domain) ask(ctx context.Context, client pb.RateLimitServiceClient, visitor int) {
	random := rand.New(rand.NewPCG(1, uint64(visitor)))
	values := map[string]string{
		"address": fmt.Sprint("192.0.2.", visitor), "user": fmt.Sprint("user", visitor), "endpoint": "one",
	}
	in := &pb.RateLimitRequest{Domain: d.name}
	for _, key := range d.scene.descriptors {
		in.Descriptors = append(in.Descriptors, &common.RateLimitDescriptor{
			Entries: []*common.RateLimitDescriptor_Entry{{Key: key, Value: values[key]}},
		})
	}
	for {
		pause(ctx, time.Duration(random.ExpFloat64()/d.rate*float64(time.Second)))
		if ctx.Err() != nil {
			return
		}
		d.sent.Add(1)
		if _, err := client.ShouldRateLimit(context.Background(), in); err != nil {
			d.failed.Add(1)
		}
	}
}

// exchanges are those that have ended, by domain.
func (p *process) exchanges() map[string]float64 {
	p.t.Helper()
	resp, err := http.Get("http://" + p.Metrics + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	sums := map[string]float64{}
	line := regexp.MustCompile(`(?m)^ration_domain_exchanges_total{domain="(\w+)",outcome="\w+"} (\S+)$`)
	for _, found := range line.FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			p.t.Fatal(err)
		}
		sums[found[1]] += n
	}
	return sums
}

// TestScripts counts the scripts that Redis runs for a request, by its descriptors and by how often
// each visitor comes, with the rules that a service begins with.
func TestScripts(t *testing.T) {
	example, err := os.ReadFile("../../../example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var domains []*domain
	folder := t.TempDir()
	for i, s := range scenes {
		for j, rate := range rates {
			d := &domain{name: fmt.Sprintf("d%d_%d", i, j), scene: s, rate: rate}
			text := strings.Replace(string(example), "domain: example", "domain: "+d.name, 1)
			if s.burst > 0 {
				text = strings.Replace(text, "burst: 50", fmt.Sprint("burst: ", s.burst), 1)
			}
			err := os.WriteFile(filepath.Join(folder, d.name+".yaml"), []byte(text), 0o600)
			if err != nil {
				t.Fatal(err)
			}
			domains = append(domains, d)
		}
	}
	redis := redistest.Start(t)
	p := start(t, "-redis", "redis://"+redis.Addr, "-rules", "files:"+folder, "-timeout", "10s")
	client := p.dial()
	ctx := timed(t, *scripts)
	var asking sync.WaitGroup
	for _, d := range domains {
		for visitor := range visitors {
			asking.Go(func() { d.ask(ctx, client, visitor) })
		}
	}
	pause(ctx, *scripts/2)
	before := p.exchanges()
	for _, d := range domains {
		d.sent.Store(0)
	}
	asking.Wait()
	after := p.exchanges()
	for _, d := range domains {
		d.scripts = (after[d.name] - before[d.name]) / float64(d.sent.Load())
		if n := d.failed.Load(); n > 0 {
			t.Errorf("%s at %v/s: %d requests have failed", d.scene.name, d.rate, n)
		}
	}
	table(t, domains)
	for i, seldom := range rates[:2] {
		small, large := domains[3*len(rates)+i], domains[5*len(rates)+i]
		if *scripts >= 2*time.Minute && large.scripts > small.scripts/2 {
			t.Errorf("at %v/s a burst of 500 takes %.2f scripts, one of 50 %.2f", seldom,
				large.scripts, small.scripts)
		}
	}
}

// table prints a row for each scene, and a column for each rate.
func table(t *testing.T, domains []*domain) {
	for i := 0; i < len(domains); i += len(rates) {
		row := "| " + domains[i].scene.name
		for _, d := range domains[i : i+len(rates)] {
			row += fmt.Sprintf(" | %.2f", d.scripts)
		}
		t.Log(row + " |")
	}
}
