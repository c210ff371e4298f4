package live

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

var lookAt = flag.String("look", "", "write pages to look at into this folder")

// shop is a domain with a shadow and a trial.
const shop = `
domain: shop
descriptors:
- key: user
  rate_limit: {unit: second, requests_per_unit: 60}
  trial: {unit: second, requests_per_unit: 40, percent: 0}
- key: address
  transform: ip/64
  shadow_mode: true
  rate_limit: {unit: second, requests_per_unit: 9}
- {key: api, value: search, rate_limit: {unit: minute, requests_per_unit: 100}}
- {key: "</script><b>", value: "\"'&", rate_limit: {unit: hour, requests_per_unit: 10}}
`

// around is a page around a fragment, as that of the service has it.
const around = `<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>live</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'self' file:">
<link rel="stylesheet" href="page.css"><link rel="stylesheet" href="live.css">
<main>FRAGMENT</main></html>`

const pageCSS = `:root { color-scheme: light dark; --ink: #1c2126; --quiet: #545d66; --line: #d5d9de;
  --paper: #fff; --good: #00694d; --bad: #a63300; }
@media (prefers-color-scheme: dark) { :root { --ink: #e9ecef; --quiet: #a9b2ba; --line: #3a4148;
  --paper: #15181b; --good: #4fd1a5; --bad: #ff9d66; } }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 80rem; margin: 0 auto; padding: 1rem; }`

// A world is processes that share a store, under traffic that comes and goes.
type world struct {
	fleet []*rules.Limiter
	rng   *rand.Rand
}

// pass lets time pass, with so many requests a second for the first process, and more for others.
func (w *world) pass(t *testing.T, seconds int, rate func(second int) float64) {
	const steps = 20 // a second
	for step := range seconds * steps {
		for i, l := range w.fleet {
			n := rate(step/steps)*(1+float64(i))/steps + w.rng.Float64()
			for range int(n) {
				w.request(t, l)
			}
		}
		time.Sleep(time.Second / steps)
	}
}

func (w *world) request(t *testing.T, l *rules.Limiter) {
	ds := []rules.Descriptor{
		rules.Of("user", []string{"ann", "bob", "eve with a long name"}[w.rng.IntN(3)]),
		rules.Of("address", "2001:db8::1"),
	}
	switch w.rng.IntN(40) {
	case 0:
		ds = []rules.Descriptor{rules.Of("api", "search")}
	case 1:
		ds = []rules.Descriptor{rules.Of("</script><b>", `"'&`)}
	}
	if _, err := l.Take(t.Context(), "shop", ds...); err != nil {
		t.Fatal(err)
	}
}

// TestLook: a fragment with traffic is whole. With -look DIR pages to look at are left there.
func TestLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		w := &world{rng: rand.New(rand.NewPCG(1, 0))}
		for _, name := range []string{"host-1", "host-2", "host-3"} {
			w.fleet = append(w.fleet, newLimiter(t, store, newBoard(shop), hybrid.NewProcess(), name))
		}
		l := New(w.fleet[0], store, Config{Log: quiet})
		run(t, l)
		first, calm, last := 200, 2*time.Hour, 297
		if testing.Short() {
			first, calm, last = 20, time.Minute, 30 // the race detector sees as much in it
		}
		w.pass(t, first, func(s int) float64 { return 20 + float64(s%300)/10 })
		time.Sleep(calm)
		w.pass(t, last, func(s int) float64 { return 40 + float64(s)/6 })
		pages := map[string]string{
			"5m": "/live/shop", "24h": "/live/shop?span=24h",
			"key": "/live/shop/key?key=user%3Dann", "rule": "/live/shop/rule?path=address",
		}
		for name, url := range pages {
			status, text := get(t, l, url)
			if status != 200 || strings.Contains(text, "style=") || strings.Contains(text, "<script") {
				t.Errorf("%s: %d, %s", url, status, text)
			}
			write := func(file, text string) {
				if *lookAt == "" {
					return
				}
				if err := os.WriteFile(filepath.Join(*lookAt, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write(name+".html", strings.Replace(around, "FRAGMENT", text, 1))
			write("page.css", pageCSS)
			write("live.css", string(CSS))
		}
	})
}
