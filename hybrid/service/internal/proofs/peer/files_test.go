//go:build head

package peer

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// A file is one of the checkout with rules.
type file struct {
	name, text string
	tree       *config.YamlRoot // nil: theirs refuses it
	rules      *rules.Rules     // nil: ours does
}

// files are all files of the checkout with a domain, or without one by mistake.
func files(t *testing.T) (list []file) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/envoyproxy/ratelimit").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(string(out))
	for _, folder := range []string{"examples/ratelimit", "test"} {
		err := filepath.WalkDir(filepath.Join(dir, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" {
				return err
			}
			text, err := os.ReadFile(path)
			f := file{name: path[len(dir)+1:], text: string(text)}
			f.tree = load(f.text)
			f.rules, _ = rules.Parse(rules.Document{Name: f.name, Text: text})
			list = append(list, f)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// load reads a file as theirs does, and returns nil if it panics.
func load(text string) (tree *config.YamlRoot) {
	defer func() {
		if recover() != nil {
			tree = nil
		}
	}()
	tree = config.ConfigFileContentToYaml("x", text)
	config.NewRateLimitConfigImpl([]config.RateLimitConfigToLoad{{Name: "x", ConfigYaml: tree}},
		manager(), false)
	return tree
}

// TestFiles: ours loads each file of the checkout that theirs loads, as it is, and refuses each
// that theirs refuses. Random requests by all that load get the same answers. With -long they are
// 100,000.
func TestFiles(t *testing.T) {
	var good []file
	all := files(t)
	for _, f := range all {
		if (f.tree == nil) != (f.rules == nil) {
			t.Errorf("%s: theirs loads it: %v, ours: %v", f.name, f.tree != nil, f.rules != nil)
		} else if f.tree != nil && len(f.tree.Descriptors) > 0 {
			good = append(good, f)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	requests := longform.Of(5000, 100_000)/len(good) + 1
	avoided, answers := map[string]int{}, map[pb.RateLimitResponse_Code]int{}
	for i, f := range good {
		t.Run(f.name, func(t *testing.T) {
			p := &player{file: f, r: rand.New(rand.NewPCG(seed, uint64(i))), avoided: avoided}
			now := &clock{}
			they := newBoth(f.text, now)
			synctest.Test(t, func(t *testing.T) {
				we := oursOf(t, hybrid.NewMemory(), fixed.ReplaceAllString(f.text, "$0\n${1}kind: quota"))
				time.Sleep(time.Second / 2)
				for n := range requests {
					if p.r.IntN(3) == 0 {
						time.Sleep(time.Duration(p.r.IntN(3000)) * time.Millisecond)
					}
					now.Store(time.Now().Unix())
					in, service, shadow := p.draw(they)
					their, err := service.ShouldRateLimit(t.Context(), in)
					if err != nil {
						t.Fatal(err)
					}
					our, err := we.ShouldRateLimit(t.Context(), in)
					has, want := short(our), short(their)
					if shadow { // what is left of it is not told
						has, want = has[strings.Index(has+" of ", " of "):], want[strings.Index(want+" of ", " of "):]
					}
					if err != nil || has != want && !agrees(has, want) {
						t.Fatalf("request %d: %v\n  ours %s, %v\ntheirs %s", n, in, has, err, want)
					}
					answers[our.GetOverallCode()]++
				}
			})
		})
	}
	t.Logf("%d files, %d that both load; %d requests by each: %v; not drawn: %v",
		len(all), len(good), requests, answers, avoided)
	if answers[pb.RateLimitResponse_OK] < 1000 || answers[pb.RateLimitResponse_OVER_LIMIT] < 1000 {
		t.Error("the requests are not of both kinds")
	}
}

// fixed are the units whose windows ours counts by a bucket, if the file does not say otherwise.
var fixed = regexp.MustCompile(`(?m)^( *)unit: (?:second|minute|hour)$`)

// A player draws requests about a file, but not those of documented differences.
type player struct {
	file
	r       *rand.Rand
	avoided map[string]int // by difference
}

func (p *player) draw(they both) (in *pb.RateLimitRequest, s pb.RateLimitServiceServer, shadow bool) {
	in = &pb.RateLimitRequest{Domain: p.tree.Domain, HitsAddend: uint32(p.r.IntN(2))}
	if p.r.IntN(50) == 0 {
		in.Domain = "elsewhere"
	}
	keys := map[string]bool{}
	quotas := 0
	for range 1 + p.r.IntN(3) {
		d := of(p.pairs(p.tree.Descriptors)...)
		e := p.explain(d)
		last := len(in.Descriptors)
		switch {
		case keys[e.Key] && e.Key != "" || keys[d.String()]:
			p.avoided["a descriptor twice in a request"]++
			continue
		case last > 0 && e.Rule.QuotaMode != (quotas == last):
			p.avoided["quota_mode beside another limit"]++
			continue
		case last > 0 && (shadow || e.State == rules.Shadow):
			p.avoided["a shadow beside another limit"]++
			continue
		}
		if e.Rule.QuotaMode {
			quotas++
		}
		shadow = e.State == rules.Shadow
		keys[e.Key], keys[d.String()] = true, true
		in.Descriptors = append(in.Descriptors, d)
	}
	if quotas > 0 {
		return in, they.count, shadow
	}
	return in, they.stop, shadow
}

// explain tells which rule a descriptor has.
func (p *player) explain(d *common.RateLimitDescriptor) rules.Explanation {
	own := rules.Descriptor{}
	for _, e := range d.GetEntries() {
		own.Entries = append(own.Entries, rules.Entry{Key: e.GetKey(), Value: e.GetValue()})
	}
	e, err := p.rules.Explain(p.tree.Domain, own)
	if err != nil {
		panic(err)
	}
	return e[0]
}

// pairs are keys and values that match a descriptor of the file, or almost do.
func (p *player) pairs(list []config.YamlDescriptor) []string {
	d := list[p.r.IntN(len(list))]
	value := d.Value
	if value == "" {
		value = fmt.Sprint(p.r.IntN(4))
	}
	for strings.Contains(value, "*") {
		value = strings.Replace(value, "*", []string{"", "x", "y/z"}[p.r.IntN(3)], 1)
	}
	pairs := []string{d.Key, value}
	switch n := p.r.IntN(24); {
	case n == 0:
		pairs[0] = "unknown"
	case n == 1:
		pairs[1] += "?"
	case n == 2:
		pairs[1] = ""
	case n == 3:
		return append(pairs, "more", "1")
	case n > 8 && len(d.Descriptors) > 0:
		return append(pairs, p.pairs(d.Descriptors)...)
	}
	return pairs
}
