package main

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/remote"
)

// Errors about a URL of Redis name no value: it may have a password.
var (
	errRedis = errors.New("it is not a URL such as redis://:password@host:6379/0 " +
		"(rediss: with TLS; unix: a socket)")
	errCluster = errors.New("it is not a URL of a Cluster, such as " +
		"redis://:password@host:6379?cluster=true&addr=host2:6379")
	errSentinel = errors.New("it is not a URL of Sentinels, such as " +
		"redis://host:26379?master_name=main&addr=host2:26379&password=password")
	errRedisOption = errors.New("after the question mark it has an option that does not belong " +
		"there, or has it twice: of a Cluster cluster=true and addr, of Sentinels master_name, " +
		"addr, username and password")
)

// setRedis reads where Redis is, as go-redis' ParseURL, ParseClusterURL and ParseFailoverURL do.
// How it is used stays that of remote.Options: other options of those URLs are refused.
func (c *config) setRedis(value string) error {
	u, err := url.Parse(value)
	if err != nil {
		return errRedis
	}
	given, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errRedis
	}
	read, names := single, []string{}
	switch {
	case given.Has("master_name"):
		read, names = sentinel, []string{"master_name", "addr", "username", "password"}
	case given.Has("cluster"):
		read, names = cluster, []string{"cluster", "addr"}
	case u.Scheme == "unix":
		names = []string{"db"}
	}
	for name, values := range given {
		if !slices.Contains(names, name) || len(values) > 1 && name != "addr" {
			return errRedisOption
		}
	}
	o, err := read(u, given)
	if err == nil {
		c.redis = o
	}
	return err
}

// single reads the URL of one server.
func single(u *url.URL, _ url.Values) (*redis.UniversalOptions, error) {
	parsed, err := redis.ParseURL(u.String())
	if err != nil || parsed.Network != "unix" && !reachable(parsed.Addr) {
		return nil, errRedis
	}
	o := suitable(parsed.Addr)
	o.Username, o.Password = parsed.Username, parsed.Password
	o.DB, o.TLSConfig = parsed.DB, parsed.TLSConfig
	return o, nil
}

// cluster reads the URL of a Cluster, which names some of its nodes. It has one database.
func cluster(u *url.URL, given url.Values) (*redis.UniversalOptions, error) {
	if given.Get("cluster") != "true" || strings.Trim(u.Path, "/") != "" {
		return nil, errCluster
	}
	nodes := *u
	nodes.RawQuery = url.Values{"addr": given["addr"]}.Encode()
	parsed, err := redis.ParseClusterURL(nodes.String())
	if err != nil || !reachable(parsed.Addrs...) {
		return nil, errCluster
	}
	o := suitable(parsed.Addrs...)
	o.IsClusterMode = true
	o.Username, o.Password, o.TLSConfig = parsed.Username, parsed.Password, parsed.TLSConfig
	return o, nil
}

// sentinel reads the URL of Sentinels, whose user and password stand before the host. Those of the
// master are options.
func sentinel(u *url.URL, _ url.Values) (*redis.UniversalOptions, error) {
	parsed, err := redis.ParseFailoverURL(u.String())
	if err != nil || parsed.MasterName == "" || !reachable(parsed.SentinelAddrs...) ||
		u.Port() == "" { // go-redis would take that of Redis
		return nil, errSentinel
	}
	o := suitable(parsed.SentinelAddrs...)
	o.MasterName = parsed.MasterName
	o.SentinelUsername, o.SentinelPassword = parsed.SentinelUsername, parsed.SentinelPassword
	o.Username, o.Password = parsed.Username, parsed.Password
	o.DB, o.TLSConfig = parsed.DB, parsed.TLSConfig
	return o, nil
}

func reachable(addresses ...string) bool {
	return !slices.ContainsFunc(addresses, func(a string) bool {
		return address(new(string))(a) != nil
	})
}

// suitable are the settings of remote.Options, for any kind of client.
func suitable(addresses ...string) *redis.UniversalOptions {
	o := remote.Options("")
	return &redis.UniversalOptions{
		Addrs:                    addresses,
		DialTimeout:              o.DialTimeout,
		DialerRetries:            o.DialerRetries,
		ReadTimeout:              o.ReadTimeout,
		WriteTimeout:             o.WriteTimeout,
		ContextTimeoutEnabled:    o.ContextTimeoutEnabled,
		DisableIdentity:          o.DisableIdentity,
		MaintNotificationsConfig: o.MaintNotificationsConfig,
		MaxRetries:               o.MaxRetries,
		PipelinePoolSize:         o.PipelinePoolSize,
		PoolSize:                 o.PoolSize,
		PoolTimeout:              o.PoolTimeout,
		MinIdleConns:             o.MinIdleConns,
	}
}
