package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestForeignNames: the variables of envoyproxy/ratelimit set options. Those that are set go before
// ours, and ours before the defaults of the others.
func TestForeignNames(t *testing.T) {
	cert, key := newAuthority(t).certificate(t, 2, "localhost")
	certFile, keyFile := write(t, "cert.pem", string(cert)), write(t, "key.pem", string(key))
	folder := filepath.Join(t.TempDir(), "app", "config")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		good func(c config) bool
	}{
		{"defaults", nil, nil, func(c config) bool {
			return c.http == "0.0.0.0:8080" && c.grpc == "0.0.0.0:8081" && c.json &&
				c.rules == "files" && c.rulesName == "/srv/runtime_data/current/config" &&
				c.logLevel.String() == "WARN" && c.logFormat == "text" && !c.headers &&
				c.redis.Addrs[0] == "/var/run/nutcracker/ratelimit.sock"
		}},
		{"ours before their defaults", map[string]string{"RATION_HTTP": ":1", "RATION_GRPC": ":2",
			"GRPC_PORT": "3", "RATION_REDIS": "redis://own:1"}, []string{"-json", "false"},
			func(c config) bool {
				return c.http == ":1" && c.grpc == "0.0.0.0:3" && !c.json && c.redis.Addrs[0] == "own:1"
			}},
		{"a server", map[string]string{"REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": "host:6379",
			"REDIS_AUTH": "se:cr/et", "REDIS_TLS": "true", "LOG_LEVEL": "trace", "LOG_FORMAT": "json"}, nil,
			func(c config) bool {
				return c.redis.Addrs[0] == "host:6379" && c.redis.Username == "se" &&
					c.redis.Password == "cr/et" && c.redis.TLSConfig != nil && c.logLevel.String() == "DEBUG" &&
					c.logFormat == "json"
			}},
		{"a whole URL", map[string]string{"REDIS_URL": "redis://host:6379/3", "REDIS_AUTH": "se:cret",
			"REDIS_TLS": "true"}, nil, func(c config) bool {
			return c.redis.Addrs[0] == "host:6379" && c.redis.DB == 3 && c.redis.TLSConfig != nil &&
				c.redis.Username == "se" && c.redis.Password == "cret"
		}},
		{"a whole URL with a user", map[string]string{"REDIS_URL": "rediss://own:x@host:6379",
			"REDIS_AUTH": "secret"}, nil, func(c config) bool {
			return c.redis.TLSConfig != nil && c.redis.Username == "own" && c.redis.Password == "x"
		}},
		{"our certificates", map[string]string{"GRPC_SERVER_USE_TLS": "true", "RATION_TLS_CERT": certFile,
			"RATION_TLS_KEY": keyFile, "RATION_TLS_CLIENT_CA": certFile}, nil, func(c config) bool {
			t := c.tls.of("grpc", nil)
			return t != nil && t.ClientAuth == tls.RequireAndVerifyClientCert
		}},
		{"a cluster", map[string]string{"REDIS_TYPE": "cluster", "REDIS_URL": "a:1,b:2,c:3",
			"REDIS_AUTH": "secret"}, nil, func(c config) bool {
			return c.redis.IsClusterMode && len(c.redis.Addrs) == 3 && c.redis.Password == "secret"
		}},
		{"sentinels", map[string]string{"REDIS_TYPE": "SENTINEL", "REDIS_URL": "main,a:1,b:2",
			"REDIS_AUTH": "secret", "REDIS_SENTINEL_AUTH": "u:p"}, nil, func(c config) bool {
			return c.redis.MasterName == "main" && len(c.redis.Addrs) == 2 &&
				c.redis.Password == "secret" && c.redis.SentinelUsername == "u" &&
				c.redis.SentinelPassword == "p"
		}},
		{"the rest", map[string]string{"RUNTIME_ROOT": filepath.Dir(filepath.Dir(folder)),
			"RUNTIME_SUBDIRECTORY": "app", "USE_PROMETHEUS": "true", "PROMETHEUS_ADDR": ":7",
			"LIMIT_RESPONSE_HEADERS_ENABLED": "true", "RESPONSE_DYNAMIC_METADATA": "true",
			"GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": certFile, "GRPC_SERVER_TLS_KEY": keyFile,
			"GRPC_CLIENT_TLS_CACERT": certFile, "GRPC_CLIENT_TLS_SAN": "envoy"}, nil,
			func(c config) bool {
				t := c.tls.of("grpc", nil)
				return c.rulesName == folder && c.metrics == ":7" && c.envoyStats && c.headers && c.metadata &&
					t != nil && t.ClientAuth == tls.RequireAndVerifyClientCert && t.VerifyConnection != nil &&
					c.tls.of("http", nil) == nil
			}},
		{"a control plane", map[string]string{"CONFIG_TYPE": "GRPC_XDS_SOTW", "RUNTIME_ROOT": "/x",
			"CONFIG_GRPC_XDS_SERVER_URL": "gateway:18001", "CONFIG_GRPC_XDS_NODE_ID": "n",
			"CONFIG_GRPC_XDS_NODE_METADATA": "a=b,c=d", "CONFIG_GRPC_XDS_SERVER_USE_TLS": "true",
			"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "x:y:z", "CONFIG_GRPC_XDS_SERVER_TLS_SAN": "s",
			"CONFIG_GRPC_XDS_CLIENT_TLS_CERT": certFile, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY": keyFile,
			"CONFIG_GRPC_XDS_SERVER_TLS_CACERT": certFile}, nil,
			func(c config) bool {
				return c.rules == "xds" && c.rulesName == "gateway:18001" && c.xds.node == "n" &&
					c.xds.metadata["c"] == "d" && c.xds.headers["x"] == "y:z" &&
					c.xds.credentials.Info().SecurityProtocol == "tls" && c.xds.name == "s"
			}},
	} {
		got, err := configure(append(c.args, "-names", "envoy"), func(name string) string { return c.env[name] })
		if err != nil || !c.good(got) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

// TestForeignRefused: what would mean something else here is an error, which names no secret, and
// what has no effect is a warning.
func TestForeignRefused(t *testing.T) {
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "config", "more"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"CONFIG_TYPE": "CONSUL", "SHADOW_MODE": "true", "BACKEND_TYPE": "memcache",
		"CACHE_KEY_PREFIX": "x", "REDIS_TYPE": "secret", "RUNTIME_ROOT": folder, "LOG_LEVEL": "loud",
		"MERGE_DOMAIN_CONFIG": "true", "REDIS_URL": "redis://secret:x", "PORT": "http",
	} {
		_, err := configure([]string{"-names", "envoy"}, func(n string) string {
			return map[string]string{name: value}[n]
		})
		names := map[string]string{"RUNTIME_ROOT": `"more"`, "LOG_LEVEL": "RATION_LOG_LEVEL",
			"PORT": "RATION_HTTP"}[name]
		if names == "" {
			names = name
		}
		if err == nil || !strings.Contains(err.Error(), names) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, env := range map[string]map[string]string{
		"REDIS_TLS":           {"REDIS_TLS": "1"}, // the default is a socket
		"REDIS_TLS is":        {"REDIS_TLS": "1", "REDIS_URL": "unix:///secret"},
		"REDIS_SENTINEL_AUTH": {"REDIS_SENTINEL_AUTH": "secret", "REDIS_URL": "redis://host:1"},
		"REDIS_AUTH":          {"REDIS_AUTH": "secret", "REDIS_URL": "redis://host:1?master_name=m"},
	} {
		_, err := configure([]string{"-names", "envoy"}, func(n string) string { return env[n] })
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: %v", env, err)
		}
	}
	for want, env := range map[string]map[string]string{
		"STATSD_HOST has no effect":  {"RATION_NAMES": "envoy", "STATSD_HOST": "h", "USE_STATSD": "true"},
		"RUNTIME_ROOT is not read":   {"RUNTIME_ROOT": "/x"},
		"TRACING_ENABLED has no eff": {"RATION_NAMES": "envoy", "TRACING_ENABLED": "true", "PORT": "1"},
	} {
		c, err := configure(nil, func(name string) string { return env[name] })
		if err != nil || len(c.warnings) != 1 || !strings.HasPrefix(c.warnings[0], want) {
			t.Errorf("%q, %v", c.warnings, err)
		}
	}
}

// TestForeignBooleans: each is read as strconv.ParseBool does, as there, or is an error that names
// it.
func TestForeignBooleans(t *testing.T) {
	cert, key := newAuthority(t).certificate(t, 2, "localhost")
	base := map[string]string{
		"GRPC_SERVER_TLS_CERT": write(t, "cert.pem", string(cert)), "PROMETHEUS_ADDR": ":7",
		"GRPC_SERVER_TLS_KEY": write(t, "key.pem", string(key)), "CONFIG_TYPE": "GRPC_XDS_SOTW",
		"REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": "host:6379",
	}
	said := func(value string) (config, error) {
		return configure([]string{"-names", "envoy"}, func(name string) string {
			switch name {
			case "GRPC_SERVER_USE_TLS", "USE_PROMETHEUS", "REDIS_TLS", "CONFIG_GRPC_XDS_SERVER_USE_TLS",
				"LIMIT_RESPONSE_HEADERS_ENABLED", "RESPONSE_DYNAMIC_METADATA":
				return value
			}
			return base[name]
		})
	}
	for value, want := range map[string]bool{
		"1": true, "t": true, "True": true, "TRUE": true, "0": false, "F": false, "False": false,
	} {
		c, err := said(value)
		if err != nil || (c.tls.of("grpc", nil) != nil) != want || c.envoyStats != want || c.xds.tls != want ||
			(c.redis.TLSConfig != nil) != want || c.headers != want || c.metadata != want {
			t.Errorf("%s: %+v, %v", value, c, err)
		}
	}
	for _, f := range foreigners {
		if f.value != "true" && f.value != "false" {
			continue
		}
		for value, bad := range map[string]bool{strings.ToUpper(f.value): false, "on": true} {
			c, err := configure([]string{"-names", "envoy"}, func(n string) string {
				return map[string]string{f.name: value}[n]
			})
			if named := strings.Contains(fmt.Sprint(err), f.name); bad != named || len(c.warnings) > 0 {
				t.Errorf("%s=%s: %q, %v", f.name, value, c.warnings, err)
			}
		}
	}
}

// TestForeignListed: docs/migrating.md has each variable in one row, by its name or by a pattern
// such as `MEMCACHE_*`, with what it is good for.
func TestForeignListed(t *testing.T) {
	page, err := os.ReadFile("../../docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Variables of envoyproxy/ratelimit\n")
	section, _, _ = strings.Cut(section, "\n#")
	for _, f := range foreigners {
		row := ""
		for line := range strings.Lines(section) {
			if rowHas(line, f.name) {
				row += line
			}
		}
		want := map[use]string{
			sets: "| sets " + f.why + " |", same: "| same", idle: "| no effect", refuse: "| refused",
		}[f.use]
		if strings.Count(row, "\n") != 1 || !strings.Contains(row, want) {
			t.Errorf("%s is not in one row with %q: %s", f.name, want, row)
		}
	}
}

// rowHas reports whether a row of the table names the variable, or has a pattern of it.
func rowHas(row, name string) bool {
	for i, text := range strings.Split(row, "`") {
		prefix, pattern := strings.CutSuffix(text, "*")
		if i%2 == 1 && (text == name || pattern && strings.HasPrefix(name, prefix)) {
			return true
		}
	}
	return false
}
