package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A foreign variable is one of envoyproxy/ratelimit. With -names envoy it is read.
type foreign struct {
	name, value string // value is its default there
	use         use
	why         string // the options that it sets, or why it is refused or has no effect
}

// A use is what a foreign variable is good for.
type use int

const (
	sets   use = iota // the option named by why
	same              // there is no other way here, so any value is as good as the other
	idle              // it has no effect: a warning if it is set
	refuse            // another value than the default, or the one that is always so here, is an error
)

const (
	ofRedis     = "`-redis`"
	ofTLS       = "`-tls-cert` and the like"
	ofXDS       = "`-rules xds:`, `-xds-node` and the like"
	noRetries   = "it tries again after 1 to 30 s"
	noStatsd    = "metrics are read from `-metrics`, not sent"
	noMemcache  = "there is no memcached"
	noPipelines = "calls to Redis are batched anyway"
	noSecond    = "one Redis has all limits"
	noTracing   = "the service sends no traces"
	authorities = "authorities are named by `SSL_CERT_FILE`"
)

// foreigners are all variables of envoyproxy/ratelimit, commit f2fb15770f7f of July 2026.
var foreigners = []foreign{
	{"HOST", "0.0.0.0", sets, "`-http`"}, {"PORT", "8080", sets, "`-http`"},
	{"GRPC_HOST", "0.0.0.0", sets, "`-grpc`"}, {"GRPC_PORT", "8081", sets, "`-grpc`"},
	{"GRPC_SERVER_USE_TLS", "false", sets, ofTLS}, {"GRPC_SERVER_TLS_CERT", "", sets, ofTLS},
	{"GRPC_SERVER_TLS_KEY", "", sets, ofTLS}, {"GRPC_CLIENT_TLS_CACERT", "", sets, ofTLS},
	{"GRPC_CLIENT_TLS_SAN", "", sets, ofTLS},
	{"LOG_LEVEL", "WARN", sets, "`-log-level`"}, {"LOG_FORMAT", "text", sets, "`-log-format`"},
	{"USE_PROMETHEUS", "false", sets, "`-metrics`, `-stats envoy`"},
	{"PROMETHEUS_ADDR", ":9090", sets, "`-metrics`"},
	{"RUNTIME_ROOT", "/srv/runtime_data/current", sets, "`-rules files:`"},
	{"RUNTIME_SUBDIRECTORY", "", sets, "`-rules files:`"},
	{"RUNTIME_APPDIRECTORY", "config", sets, "`-rules files:`"},
	{"LIMIT_RESPONSE_HEADERS_ENABLED", "false", sets, "`-headers`"},
	{"RESPONSE_DYNAMIC_METADATA", "false", sets, "`-metadata`"},
	{"REDIS_SOCKET_TYPE", "unix", sets, ofRedis}, {"REDIS_TYPE", "SINGLE", sets, ofRedis},
	{"REDIS_URL", "/var/run/nutcracker/ratelimit.sock", sets, ofRedis},
	{"REDIS_AUTH", "", sets, ofRedis}, {"REDIS_TLS", "false", sets, ofRedis},
	{"REDIS_SENTINEL_AUTH", "", sets, ofRedis},

	{"RUNTIME_WATCH_ROOT", "true", same, "changes of files are seen in any case"},
	{"RUNTIME_IGNOREDOTFILES", "false", same, "files that begin with a dot are never read"},
	{"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "false", same, "nothing listens before rules are read"},
	{"EXPIRATION_JITTER_MAX_SECONDS", "300", same, "keys end by what they hold"},
	{"LOCAL_CACHE_SIZE_IN_BYTES", "0", same, "each process decides locally"},
	{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "false", same, "a denied request takes nothing"},
	{"REDIS_POOL_SIZE", "10", same, noPipelines}, {"REDIS_PIPELINE_WINDOW", "0", same, noPipelines},
	{"REDIS_PIPELINE_LIMIT", "0", same, noPipelines},
	{"REDIS_CLUSTER_PIPELINE_PARALLELISM", "1", same, noPipelines},
	{"REDIS_POOL_ON_EMPTY_BEHAVIOR", "WAIT", same, noPipelines},
	{"REDIS_STARTUP_INITIAL_INTERVAL", "1s", same, "`-outage` decides until Redis is there"},
	{"REDIS_STARTUP_MAX_INTERVAL", "30s", same, "`-outage` decides until Redis is there"},
	{"REDIS_STARTUP_MAX_ELAPSED_TIME", "0", same, "`-outage` decides until Redis is there"},

	{"DEBUG_HOST", "0.0.0.0", idle, "there is no listener for debugging"},
	{"DEBUG_PORT", "6070", idle, "there is no listener for debugging"},
	{"GRPC_MAX_CONNECTION_AGE", "24h", idle, "connections have no age"},
	{"GRPC_MAX_CONNECTION_AGE_GRACE", "1h", idle, "connections have no age"},
	{"NEAR_LIMIT_RATIO", "0.8", idle, "near_limit is not counted"},
	{"REDIS_TIMEOUT", "10s", idle, "`-timeout` bounds how long a request waits"},
	{"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "false", idle, "`-outage` decides while Redis is away"},
	{"USE_STATSD", "true", idle, noStatsd}, {"USE_DOG_STATSD", "false", idle, noStatsd},
	{"USE_DOG_STATSD_MOGRIFIERS", "", idle, noStatsd}, {"STATSD_HOST", "localhost", idle, noStatsd},
	{"STATSD_PORT", "8125", idle, noStatsd}, {"EXTRA_TAGS", "", idle, noStatsd},
	{"STATS_FLUSH_INTERVAL", "10s", idle, noStatsd}, {"DISABLE_STATS", "false", idle, noStatsd},
	{"PROMETHEUS_MAPPER_YAML", "", idle, "the names are those of its default"},
	{"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "false", idle, "response times are not measured"},
	{"TRACING_ENABLED", "false", idle, noTracing}, {"TRACING_SERVICE_NAME", "RateLimit", idle, noTracing},
	{"TRACING_SERVICE_NAMESPACE", "", idle, noTracing},
	{"TRACING_SERVICE_INSTANCE_ID", "", idle, noTracing},
	{"TRACING_EXPORTER_PROTOCOL", "http", idle, noTracing},
	{"TRACING_SAMPLING_RATE", "1", idle, noTracing},
	{"REDIS_PERSECOND", "false", idle, noSecond}, {"REDIS_PERSECOND_SOCKET_TYPE", "unix", idle, noSecond},
	{"REDIS_PERSECOND_TYPE", "SINGLE", idle, noSecond}, {"REDIS_PERSECOND_URL",
		"/var/run/nutcracker/ratelimitpersecond.sock", idle, noSecond},
	{"REDIS_PERSECOND_POOL_SIZE", "10", idle, noSecond}, {"REDIS_PERSECOND_AUTH", "", idle, noSecond},
	{"REDIS_PERSECOND_TLS", "false", idle, noSecond},
	{"REDIS_PERSECOND_SENTINEL_AUTH", "", idle, noSecond},
	{"REDIS_PERSECOND_PIPELINE_WINDOW", "0", idle, noSecond},
	{"REDIS_PERSECOND_PIPELINE_LIMIT", "0", idle, noSecond},
	{"REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM", "1", idle, noSecond},
	{"REDIS_PERSECOND_TIMEOUT", "10s", idle, noSecond},
	{"REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", "WAIT", idle, noSecond},

	{"GRPC_UDS", "", refuse, "gRPC does not listen on a socket of Unix"},
	{"CONFIG_TYPE", "FILE", sets, ofXDS}, {"CONFIG_GRPC_XDS_NODE_ID", "default", sets, ofXDS},
	{"CONFIG_GRPC_XDS_NODE_METADATA", "", sets, ofXDS},
	{"CONFIG_GRPC_XDS_SERVER_URL", "localhost:18000", sets, ofXDS},
	{"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "3s", same, noRetries},
	{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "", sets, ofXDS},
	{"CONFIG_GRPC_XDS_SERVER_USE_TLS", "false", sets, ofXDS},
	{"CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "", sets, ofXDS},
	{"CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "", sets, ofXDS},
	{"CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "", sets, ofXDS},
	{"CONFIG_GRPC_XDS_SERVER_TLS_SAN", "", sets, ofXDS},
	{"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "10s", same, noRetries},
	{"XDS_CLIENT_BACKOFF_MAX_INTERVAL", "60s", same, noRetries},
	{"XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "0.5", same, noRetries},
	{"XDS_CLIENT_BACKOFF_JITTER", "true", same, noRetries},
	{"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "", same, "it is 64 MiB"},
	{"FORCE_START_WITHOUT_INITIAL_CONFIG", "false", refuse, "without rules nothing would be limited"},
	{"BACKEND_TYPE", "redis", refuse, noMemcache}, {"MEMCACHE_HOST_PORT", "", refuse, noMemcache},
	{"MEMCACHE_MAX_IDLE_CONNS", "2", refuse, noMemcache}, {"MEMCACHE_SRV", "", refuse, noMemcache},
	{"MEMCACHE_SRV_REFRESH", "0", refuse, noMemcache}, {"MEMCACHE_TLS", "false", refuse, noMemcache},
	{"MEMCACHE_TLS_CLIENT_CERT", "", refuse, noMemcache},
	{"MEMCACHE_TLS_CLIENT_KEY", "", refuse, noMemcache}, {"MEMCACHE_TLS_CACERT", "", refuse, noMemcache},
	{"MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION", "false", refuse, noMemcache},
	{"CACHE_KEY_PREFIX", "", refuse, "another deployment needs another database of Redis"},
	{"PROMETHEUS_PATH", "/metrics", refuse, "it is always `/metrics`"},
	{"LIMIT_LIMIT_HEADER", "RateLimit-Limit", refuse, "the names of headers are fixed"},
	{"LIMIT_REMAINING_HEADER", "RateLimit-Remaining", refuse, "the names of headers are fixed"},
	{"LIMIT_RESET_HEADER", "RateLimit-Reset", refuse, "the names of headers are fixed"},
	{"MERGE_DOMAIN_CONFIG", "false", refuse, "a domain is one file"},
	{"SHADOW_MODE", "false", refuse, "say `shadow_mode` in each rule"},
	{"QUOTA_MODE", "false", refuse, "say `quota_mode` in each rule"},
	{"REDIS_TLS_CLIENT_CERT", "", refuse, "the service shows Redis no certificate"},
	{"REDIS_TLS_CLIENT_KEY", "", refuse, "the service shows Redis no certificate"},
	{"REDIS_TLS_CACERT", "", refuse, authorities},
	{"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", "false", refuse, "the name of the host is always verified"},
}

// translated is what foreign variables say, by the names of our own. Those that are set go before
// ours, which an image may have set, and the defaults of those that are not after.
type translated struct {
	set, defaults map[string]string
	warnings      []string
}

// variable reads one of ours.
func (t translated) variable(env func(string) string, name string) string {
	if value, ok := t.set[name]; ok {
		return value
	}
	if value := env(name); value != "" {
		return value
	}
	return t.defaults[name]
}

// theirs are the foreign variables that are set, with "true" or "false" for booleans, and the
// defaults of all.
type theirs struct{ set, defaults map[string]string }

// or reads one, or its default.
func (v theirs) or(name string) string {
	if value, ok := v.set[name]; ok {
		return value
	}
	return v.defaults[name]
}

// readTheirs reads all foreign variables.
func readTheirs(env func(string) string) (v theirs, err error) {
	v = theirs{set: map[string]string{}, defaults: map[string]string{}}
	for _, f := range foreigners {
		v.defaults[f.name] = f.value
		value := env(f.name)
		if value == "" {
			continue
		}
		if f.value == "true" || f.value == "false" {
			b, failed := strconv.ParseBool(value)
			if failed != nil {
				err = errors.Join(err, fmt.Errorf("%s is not true or false", f.name))
			}
			value = strconv.FormatBool(b)
		}
		v.set[f.name] = value
	}
	return v, err
}

// translate reads the variables of envoyproxy/ratelimit. An error names no value of Redis.
func translate(env func(string) string) (translated, error) {
	v, err := readTheirs(env)
	if err != nil {
		return translated{}, err
	}
	t := translated{set: map[string]string{}, defaults: map[string]string{}}
	for _, f := range foreigners {
		value, set := v.set[f.name]
		switch {
		case !set || value == f.value || f.use == sets || f.use == same:
		case f.use == idle:
			t.warnings = append(t.warnings, fmt.Sprintf("%s has no effect: %s", f.name, plain(f.why)))
		default:
			err = errors.Join(err, fmt.Errorf("%s is refused: %s", f.name, plain(f.why)))
		}
	}
	t.listeners(v)
	t.answers(v)
	noRules, noRedis := t.rules(v), t.redis(v)
	return t, errors.Join(err, noRules, noRedis, unread(t.variable(env, "RATION_RULES")))
}

// put sets an option by the variables that its value depends on.
func (t translated) put(v theirs, option, value string, names ...string) {
	to := t.defaults
	for _, name := range names {
		if _, ok := v.set[name]; ok {
			to = t.set
		}
	}
	to[option] = value
}

// listeners sets where the service listens, and their TLS.
func (t translated) listeners(v theirs) {
	t.put(v, "RATION_HTTP", net.JoinHostPort(v.or("HOST"), v.or("PORT")), "HOST", "PORT")
	t.put(v, "RATION_GRPC", net.JoinHostPort(v.or("GRPC_HOST"), v.or("GRPC_PORT")),
		"GRPC_HOST", "GRPC_PORT")
	if v.or("USE_PROMETHEUS") == "true" {
		t.set["RATION_STATS"], t.set["RATION_METRICS"] = "envoy", v.or("PROMETHEUS_ADDR")
	}
	if v.or("GRPC_SERVER_USE_TLS") == "true" {
		t.set["RATION_TLS"] = "grpc"
		t.rename(v, map[string]string{
			"GRPC_SERVER_TLS_CERT": "RATION_TLS_CERT", "GRPC_SERVER_TLS_KEY": "RATION_TLS_KEY",
			"GRPC_CLIENT_TLS_CACERT": "RATION_TLS_CLIENT_CA",
			"GRPC_CLIENT_TLS_SAN":    "RATION_TLS_CLIENT_SAN",
		})
	}
}

// rename sets options that have another name there.
func (t translated) rename(v theirs, names map[string]string) {
	for name, option := range names {
		if value, ok := v.set[name]; ok {
			t.set[option] = value
		}
	}
}

// answers sets what is answered and logged.
func (t translated) answers(v theirs) {
	const headers, metadata = "LIMIT_RESPONSE_HEADERS_ENABLED", "RESPONSE_DYNAMIC_METADATA"
	t.put(v, "RATION_HEADERS", v.or(headers), headers)
	t.put(v, "RATION_METADATA", v.or(metadata), metadata)
	t.defaults["RATION_JSON"] = "true"
	t.put(v, "RATION_LOG_FORMAT", strings.ToLower(v.or("LOG_FORMAT")), "LOG_FORMAT")
	level := strings.ToLower(v.or("LOG_LEVEL"))
	switch level {
	case "warning":
		level = "warn"
	case "trace":
		level = "debug"
	case "fatal", "panic":
		level = "error"
	}
	t.put(v, "RATION_LOG_LEVEL", level, "LOG_LEVEL")
}

// rules sets where rules are.
func (t translated) rules(v theirs) error {
	const root, sub, app = "RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY"
	t.put(v, "RATION_RULES", "files:"+filepath.Join(v.or(root), v.or(sub), v.or(app)), root, sub, app)
	switch v.or("CONFIG_TYPE") {
	case "FILE":
	case "GRPC_XDS_SOTW":
		t.xds(v)
	default:
		return errors.New("CONFIG_TYPE is not FILE or GRPC_XDS_SOTW")
	}
	return nil
}

// xds sets where the control plane is.
func (t translated) xds(v theirs) {
	t.set["RATION_RULES"] = "xds:" + v.or("CONFIG_GRPC_XDS_SERVER_URL")
	t.rename(v, map[string]string{
		"CONFIG_GRPC_XDS_NODE_ID":           "RATION_XDS_NODE",
		"CONFIG_GRPC_XDS_NODE_METADATA":     "RATION_XDS_METADATA",
		"CONFIG_GRPC_XDS_SERVER_USE_TLS":    "RATION_XDS_TLS",
		"CONFIG_GRPC_XDS_CLIENT_TLS_CERT":   "RATION_XDS_TLS_CERT",
		"CONFIG_GRPC_XDS_CLIENT_TLS_KEY":    "RATION_XDS_TLS_KEY",
		"CONFIG_GRPC_XDS_SERVER_TLS_CACERT": "RATION_XDS_TLS_CA",
		"CONFIG_GRPC_XDS_SERVER_TLS_SAN":    "RATION_XDS_TLS_NAME",
	})
	// They are written as key:value there.
	if value, ok := v.set["CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS"]; ok {
		pairs := strings.Split(value, ",")
		for i, pair := range pairs {
			pairs[i] = strings.Replace(pair, ":", "=", 1)
		}
		t.set["RATION_XDS_HEADERS"] = strings.Join(pairs, ",")
	}
}

// redis sets where Redis is.
func (t translated) redis(v theirs) error {
	at, err := redisURL(v.or)
	t.put(v, "RATION_REDIS", at, "REDIS_URL", "REDIS_TYPE", "REDIS_SOCKET_TYPE", "REDIS_AUTH",
		"REDIS_TLS")
	return err
}

func plain(text string) string { return strings.ReplaceAll(text, "`", "") }

var errSocketTLS = errors.New("REDIS_TLS is refused for a socket of Unix")

// redisURL is where Redis is, as -redis has it.
func redisURL(v func(string) string) (string, error) {
	kind, socket, at := strings.ToUpper(v("REDIS_TYPE")), v("REDIS_SOCKET_TYPE"), v("REDIS_URL")
	u := url.URL{Scheme: "redis", User: userOf(v("REDIS_AUTH"))}
	if v("REDIS_TLS") == "true" || socket == "tls" {
		u.Scheme = "rediss"
	}
	hosts := strings.Split(at, ",")
	switch {
	case strings.Contains(at, "://"):
		return redisWhole(at, u, v("REDIS_SENTINEL_AUTH"))
	case kind == "SINGLE" && socket == "unix" && u.Scheme == "rediss":
		return "", errSocketTLS
	case kind == "SINGLE" && socket == "unix":
		u.Scheme, u.Path = "unix", at
	case kind == "SINGLE":
		u.Host = at
	case kind == "CLUSTER":
		u.Host = hosts[0]
		u.RawQuery = url.Values{"cluster": {"true"}, "addr": hosts[1:]}.Encode()
	case kind == "SENTINEL" && len(hosts) > 1:
		u.Host = hosts[1]
		q := url.Values{"master_name": hosts[:1], "addr": hosts[2:]}
		if u.User != nil {
			password, _ := u.User.Password()
			q.Set("password", password)
			if name := u.User.Username(); name != "" {
				q.Set("username", name)
			}
		}
		u.User, u.RawQuery = userOf(v("REDIS_SENTINEL_AUTH")), q.Encode()
	default:
		return "", errors.New("REDIS_TYPE and REDIS_URL are not SINGLE with a server, CLUSTER with " +
			"servers, or SENTINEL with the name of a master and servers")
	}
	return u.String(), nil
}

// redisWhole is REDIS_URL where it is a whole URL, with TLS and the user of the other variables.
func redisWhole(at string, by url.URL, sentinelAuth string) (string, error) {
	u, err := url.Parse(at)
	switch {
	case err != nil:
		return "", errors.New("REDIS_URL is no URL")
	case by.Scheme == "rediss" && u.Scheme == "unix":
		return "", errSocketTLS
	case sentinelAuth != "" || by.User != nil && u.Query().Has("master_name"):
		return "", errors.New("REDIS_SENTINEL_AUTH, and REDIS_AUTH beside a master_name, are refused: " +
			"write them into REDIS_URL")
	case by.Scheme == "rediss" && u.Scheme == "redis":
		u.Scheme = by.Scheme
	}
	if u.User == nil {
		u.User = by.User
	}
	return u.String(), nil
}

// userOf reads "password" or "user:password".
func userOf(auth string) *url.Userinfo {
	if auth == "" {
		return nil
	}
	name, password, both := strings.Cut(auth, ":")
	if !both {
		name, password = "", auth
	}
	return url.UserPassword(name, password)
}

// unread is an error about what a folder of rules has and rules.Files does not read, where
// envoyproxy/ratelimit would: limits would be lifted without a word.
func unread(source string) error {
	folder, ok := strings.CutPrefix(source, "files:")
	if !ok {
		return nil
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil // a file, or rules.Files tells why not
	}
	for _, e := range entries {
		extension := filepath.Ext(e.Name())
		if !strings.HasPrefix(e.Name(), ".") && (e.IsDir() || extension != ".yaml" && extension != ".yml") {
			return fmt.Errorf("%q in the folder of rules is not read: only files that end with .yaml or "+
				".yml are", e.Name())
		}
	}
	return nil
}
