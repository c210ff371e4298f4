package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/remote/redistest/redisserver"
)

// A server is a process of redis-server, or of what RATION_SERVER names, and a client of it.
type server struct {
	*redisserver.Server
	client *redis.Client
}

func startServer(config ...string) (*server, error) {
	s, err := redisserver.Start(redisserver.Program(), config...)
	if err != nil {
		return nil, err
	}
	return &server{s, redis.NewClient(&redis.Options{
		Addr: s.Addr, MaxRetries: -1, DialerRetries: 1, PipelinePoolSize: -1,
	})}, nil
}

func (s *server) stop() {
	s.client.Close()
	s.Kill()
}

// startCluster starts so many masters that share the slots evenly.
func startCluster(n int) (nodes []*server, err error) {
	const slots = 16384
	ctx := context.Background()
	defer func() {
		if err != nil {
			stopAll(nodes)
		}
	}()
	for i := range n {
		node, err := startServer("cluster-enabled yes")
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, node)
		first, last := i*slots/n, (i+1)*slots/n-1
		if err := node.client.ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
			return nodes, err
		}
		host, port, _ := net.SplitHostPort(node.Addr)
		if err := nodes[0].client.ClusterMeet(ctx, host, port).Err(); err != nil {
			return nodes, err
		}
	}
	all := fmt.Sprint("cluster_known_nodes:", n, "\r")
	for _, node := range nodes {
		for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			info := node.client.ClusterInfo(ctx).Val()
			if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, all) {
				break
			}
			if time.Now().After(deadline) {
				return nodes, fmt.Errorf("the cluster is not up: %q", info)
			}
		}
	}
	return nodes, nil
}

func stopAll(nodes []*server) {
	for _, node := range nodes {
		node.stop()
	}
}

// counters are what a server has done so far.
type counters struct {
	calls  float64       // of EVALSHA
	script time.Duration // in them
	cpu    time.Duration // of the process
}

func (c counters) since(b counters) counters {
	return counters{c.calls - b.calls, c.script - b.script, c.cpu - b.cpu}
}

func (s *server) counters() (c counters, err error) {
	ctx := context.Background()
	info, err := s.client.InfoMap(ctx, "commandstats", "cpu").Result()
	if err != nil {
		return c, fmt.Errorf("INFO: %w", err)
	}
	var usec float64
	// It is absent before the first.
	_, _ = fmt.Sscanf(info["Commandstats"]["cmdstat_evalsha"], "calls=%g,usec=%g", &c.calls, &usec)
	c.script = time.Duration(usec * 1e3)
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		x, err := strconv.ParseFloat(info["CPU"][name], 64)
		if err != nil {
			return c, fmt.Errorf("INFO %s: %w", name, err)
		}
		c.cpu += time.Duration(x * 1e9)
	}
	return c, nil
}

// serverVersion is that of the server on this machine, as in Redis 8.2.1, or nothing.
func serverVersion() string {
	out, err := exec.Command(redisserver.Program(), "--version").Output()
	if err != nil {
		return ""
	}
	name, v, _ := strings.Cut(string(out), " server v=")
	v, _, _ = strings.Cut(v, " ")
	return name + " " + v
}
