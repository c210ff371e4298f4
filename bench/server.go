package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/remote/redistest/redisserver"
)

// A Server is the Redis that all subjects ask.
type Server struct {
	Addr    string
	Version string

	client  *redis.Client
	process *redisserver.Server // nil if somebody else started it
}

// startServer starts a server on a free loopback port, without persistence: redis-server, or
// what RATION_SERVER names.
func startServer() (*Server, error) {
	process, err := redisserver.Start(redisserver.Program())
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: process.Addr, process: process}
	if err := s.connect(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// attach uses a Redis that runs already. It must be empty, because it is
// emptied before each measurement.
func attach(addr string) (*Server, error) {
	s := &Server{Addr: addr}
	if err := s.connect(); err != nil {
		return nil, err
	}
	n, err := s.client.DBSize(context.Background()).Result()
	if err == nil && n > 0 {
		err = fmt.Errorf(
			"redis at %s holds %d keys: the benchmark empties it, give it one of its own", addr, n)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) connect() error {
	s.client = redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DialerRetries: 1})
	info, err := s.info("server")
	s.Version = info["redis_version"]
	if v := info["valkey_version"]; v != "" {
		s.Version = "Valkey " + v
	}
	return err
}

// Stop ends the server if this process has started it.
func (s *Server) Stop() {
	if s.client != nil {
		s.client.Close()
	}
	if s.process != nil {
		s.process.Kill()
	}
}

// Flush empties it. Scripts stay.
func (s *Server) Flush() error { return s.client.FlushAll(context.Background()).Err() }

// Counters are what the server has done so far.
type Counters struct {
	Calls Commands
	Usec  map[string]float64 // by command
	CPU   time.Duration
}

// Counters reads INFO.
func (s *Server) Counters() (Counters, error) {
	c := Counters{Calls: Commands{}, Usec: map[string]float64{}}
	stats, err := s.info("commandstats")
	if err != nil {
		return c, err
	}
	for name, value := range stats {
		command, ok := strings.CutPrefix(name, "cmdstat_")
		if !ok {
			continue
		}
		for pair := range strings.SplitSeq(value, ",") {
			switch k, v, _ := strings.Cut(pair, "="); k {
			case "calls":
				c.Calls[command], err = strconv.ParseInt(v, 10, 64)
			case "usec":
				c.Usec[command], err = strconv.ParseFloat(v, 64)
			}
			if err != nil {
				return c, fmt.Errorf("INFO %s %q: %w", name, value, err)
			}
		}
	}
	cpu, err := s.info("cpu")
	if err != nil {
		return c, err
	}
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		x, err := strconv.ParseFloat(cpu[name], 64)
		if err != nil {
			return c, fmt.Errorf("INFO %s: %w", name, err)
		}
		c.CPU += time.Duration(x * float64(time.Second))
	}
	return c, nil
}

// since returns the calls between two readings.
func (c Counters) since(before Counters) Commands {
	delta := Commands{}
	for name, n := range c.Calls {
		if n -= before.Calls[name]; n > 0 {
			delta[name] = n
		}
	}
	return delta
}

func (s *Server) info(section string) (map[string]string, error) {
	text, err := s.client.Info(context.Background(), section).Result()
	if err != nil {
		return nil, fmt.Errorf("INFO %s: %w", section, err)
	}
	values := map[string]string{}
	for scanner := bufio.NewScanner(strings.NewReader(text)); scanner.Scan(); {
		if name, value, ok := strings.Cut(scanner.Text(), ":"); ok {
			values[name] = value
		}
	}
	return values, nil
}

// memory is what all keys take in the server, by MEMORY USAGE, and how many
// there are.
func (s *Server) memory() (bytes int64, keys int, err error) {
	ctx := context.Background()
	names, err := s.client.Keys(ctx, "*").Result()
	if err != nil {
		return 0, 0, err
	}
	for _, name := range names {
		n, err := s.client.MemoryUsage(ctx, name, 0).Result()
		if errors.Is(err, redis.Nil) { // it has expired meanwhile
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		bytes += n
	}
	return bytes, len(names), nil
}
