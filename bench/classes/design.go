package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote"
)

const (
	rate      = 1000 // tokens/s of the limit
	burst     = 200
	processes = 4
)

// classes are of the limit, the highest first.
var classes = []hybrid.Class{
	{Name: "critical", Floor: 0.5}, {Name: "normal", Floor: 0.2, Weight: 2},
	{Name: "batch", Weight: 1},
}

// A design is a way to serve classes of requests.
type design struct {
	name    string
	classes []hybrid.Class
	limits  map[string]float64 // parts of the limit, by key
	keys    [][]string         // that a request of a class needs
}

var designs = []design{
	{"classes", classes, map[string]float64{"all": 1}, [][]string{{"all"}, {"all"}, {"all"}}},
	{"no classes", nil, map[string]float64{"all": 1}, [][]string{{"all"}, {"all"}, {"all"}}},
	// What lower classes must not use stays idle if higher ones do not come.
	{
		"a reserved idle part", nil, map[string]float64{"all": 1, "normal": 0.5, "batch": 0.3},
		[][]string{{"all"}, {"all", "normal"}, {"all", "normal", "batch"}},
	},
	{
		"a limit for each class", nil, map[string]float64{"critical": 0.5, "normal": 0.2, "batch": 0.3},
		[][]string{{"critical"}, {"normal"}, {"batch"}},
	},
}

// A process is a limiter of a design, with connections of its own.
type process struct {
	client  *redis.Client
	limiter *hybrid.Limiter
	take    []func() bool // by class
}

func (d *design) open(addr, namespace string) (*process, error) {
	client := redis.NewClient(remote.Options(addr))
	limiter, err := hybrid.New(remote.New(client), hybrid.Config{
		Namespace: namespace, Classes: d.classes,
		LimitFor: func(key string) hybrid.Limit {
			part := d.limits[key]
			return hybrid.PerSecond(part * rate).WithBurst(int64(part * burst))
		},
	})
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("%s: %w", d.name, err)
	}
	p := &process{client: client, limiter: limiter}
	for class, keys := range d.keys {
		take, err := d.taker(limiter, class, keys)
		if err != nil {
			p.close()
			return nil, err
		}
		p.take = append(p.take, take)
	}
	return p, nil
}

// taker is what asks for a request of a class.
func (d *design) taker(l *hybrid.Limiter, class int, keys []string) (func() bool, error) {
	if d.classes == nil {
		return func() bool { return l.AllowAll(keys...) }, nil
	}
	c, err := l.As(d.classes[class].Name)
	if err != nil {
		return nil, err
	}
	return func() bool { return c.Allow(keys[0]) }, nil
}

func (p *process) close() {
	_ = p.limiter.Close(context.Background())
	p.client.Close()
}
