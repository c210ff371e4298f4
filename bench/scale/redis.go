package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// A server is a redis-server process on a free loopback port, without
// persistence.
type server struct {
	addr   string
	client *redis.Client
	dir    string
	cmd    *exec.Cmd
	done   chan struct{}
}

func startServer(config ...string) (*server, error) {
	var err error
	for range 5 { // the port may be taken between choosing and binding it
		var s *server
		if s, err = tryServer(config); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

func tryServer(config []string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ration-scale-")
	if err != nil {
		return nil, err
	}
	args := append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--appendonly", "no", "--loglevel", "warning"}, config...)
	s := &server{addr: "127.0.0.1:" + port, dir: dir, cmd: exec.Command("redis-server", args...), done: make(chan struct{})}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for this process, which then stops it
	if err := s.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait() // it is always killed
		close(s.done)
	}()
	s.client = redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1, DialerRetries: 1, PipelinePoolSize: -1})
	for deadline := time.Now().Add(10 * time.Second); ; {
		conn, err := net.Dial("tcp", s.addr) // go-redis would log each failure
		if err == nil {
			conn.Close()
			return s, nil
		}
		select {
		case <-s.done:
			s.stop()
			return nil, errors.New("redis-server ended before it was ready")
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.stop()
			return nil, fmt.Errorf("redis-server is not ready: %w", err)
		}
	}
}

func (s *server) stop() {
	s.client.Close()
	_ = s.cmd.Process.Kill()
	<-s.done
	os.RemoveAll(s.dir)
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
		bus, err := freePort()
		if err != nil {
			return nodes, err
		}
		node, err := startServer("--cluster-enabled", "yes", "--cluster-port", bus)
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, node)
		if err := node.client.ClusterAddSlotsRange(ctx, i*slots/n, (i+1)*slots/n-1).Err(); err != nil {
			return nodes, err
		}
		host, port, _ := net.SplitHostPort(node.addr)
		if err := nodes[0].client.Do(ctx, "cluster", "meet", host, port, bus).Err(); err != nil {
			return nodes, err
		}
	}
	for _, node := range nodes {
		for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			info := node.client.ClusterInfo(ctx).Val()
			if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprint("cluster_known_nodes:", n, "\r")) {
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
	_, _ = fmt.Sscanf(info["Commandstats"]["cmdstat_evalsha"], "calls=%g,usec=%g", &c.calls, &usec) // absent before the first
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

// redisVersion is that of the redis-server on this machine, or nothing.
func redisVersion() string {
	out, err := exec.Command("redis-server", "--version").Output()
	if err != nil {
		return ""
	}
	_, v, _ := strings.Cut(string(out), "v=")
	v, _, _ = strings.Cut(v, " ")
	return v
}

// plainBucket is what a limiter without leases runs for each request: a token
// bucket that is read, computed, written and given its end.
const plainBucket = `
local rate, burst, n = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(bucket[1]) or burst, tonumber(bucket[2]) or now
tokens = math.min(burst, tokens + math.max(0, now - at) * rate)
local allowed = tokens >= n and 1 or 0
if allowed == 1 then tokens = tokens - n end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.17g', tokens), 'at', string.format('%.17g', now))
redis.call('PEXPIRE', KEYS[1], math.ceil(burst / rate * 1000) + 1000)
return {allowed, string.format('%.17g', tokens)}`
