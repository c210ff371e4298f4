package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/peterbourgon/ff/v3"
	"github.com/peterbourgon/ff/v3/ffyaml"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/service/internal/rlqs"
)

// config is what flags, the environment and the file say, checked.
type config struct {
	file, http, grpc, data string

	foreign  bool     // the environment is that of envoyproxy/ratelimit
	warnings []string // about it

	metrics string // "": none

	connections int // of each listener

	redis     *redis.UniversalOptions // nil: memory
	rules     string                  // "database", "redis", "files" or "xds"
	rulesName string                  // of the book in Redis, a path, or an address
	xds       xdsConfig
	database  *mysql.Config // nil: SQLite in the folder data

	outage    hybrid.Outage
	processes int
	timeout   time.Duration
	maxKeys   int
	eager     int
	seed      bool
	headers   bool
	metadata  bool
	whatIf    int // MiB of decisions in memory; 0: none
	json      bool
	rlqs      time.Duration // life of an assignment; 0: not served

	envoyStats bool
	tls        tlsConfig

	proxies     []netip.Prefix
	resetAdmin  bool
	authHeader  string
	authProxies []netip.Prefix
	openID      openIDConfig

	logLevel        slog.Level
	logFormat       string
	drain, shutdown time.Duration
}

// An option is a flag, a variable of the environment and a field of the file. Its set reads a
// value; what that says of a bad one names the value, unless it may be secret.
type option struct {
	name, value, usage string // value is the default
	set                func(value string) error
}

const prefix = "RATION_"

// variable is the option's name in the environment.
func (o option) variable() string {
	return prefix + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

// options are all there are. They set the fields of c.
func (c *config) options() []option {
	return slices.Concat(c.listenOptions(), c.ruleOptions(), c.limitOptions(), c.tlsOptions(),
		c.openIDOptions(), c.runOptions())
}

// listenOptions are where the service listens, and where it keeps what.
func (c *config) listenOptions() []option {
	return []option{
		{"config", "", "`file` with these options: YAML if it ends with .yaml or .yml, else a " +
			"line \"name value\" for each", text(&c.file)},
		{"names", "ration", "`whose` variables of the environment are read: ration, or envoy, which " +
			"reads those of envoyproxy/ratelimit before", c.setNames},
		{"http", "localhost:8080", "`address` for the page, the API and health",
			address(&c.http)},
		{"grpc", "localhost:8081", "`address` for gRPC", address(&c.grpc)},
		{"metrics", "localhost:8082", "`address` for metrics, or none", c.setMetrics},
		{"connections", "2000", "`number` of connections at once of each listener: others wait",
			number(&c.connections, 1, 1_000_000)},
		{"data", "ration-data", "`folder` for ration.db. It is made if need be", folder(&c.data)},
		{"redis", "", "`URL` of the Redis that all services share, such as " +
			"redis://:password@host:6379/0; with ?cluster=true of a Cluster, with " +
			"?master_name=NAME of Sentinels. Default: memory, for one service", c.setRedis},
	}
}

// ruleOptions are where rules come from.
func (c *config) ruleOptions() []option {
	return []option{
		{"rules", "database", "where the rules are: `database`, redis:NAME, or what is read only: " +
			"files:PATH, or xds:HOST:PORT of a control plane", c.setRules},
		{"xds-node", "default", "`id` of this fleet for the control plane", text(&c.xds.node)},
		{"xds-metadata", "", "`pairs` that the control plane is told, such as zone=a,tier=b",
			pairs(&c.xds.metadata)},
		{"xds-headers", "", "`pairs` that calls of the control plane have as metadata of gRPC",
			pairs(&c.xds.headers)},
		{"xds-tls", "false", "true: TLS to the control plane", boolean(&c.xds.tls)},
		{"xds-tls-cert", "", "`file` of the certificate that the control plane is shown, in PEM",
			text(&c.xds.cert)},
		{"xds-tls-key", "", "`file` of its key, in PEM", text(&c.xds.key)},
		{"xds-tls-ca", "", "`file` of the authorities of the control plane, in PEM. Default: those of " +
			"the system", text(&c.xds.ca)},
		{"xds-tls-name", "", "`name` that the certificate of the control plane must have, if not its host",
			text(&c.xds.name)},
		{"seed", "false", "true: a book in Redis that is empty begins with the domain example. " +
			"Otherwise the start fails: it may have lost its rules", boolean(&c.seed)},
		{"database", "sqlite", "`database` of rules and accounts: sqlite, in the data folder, or " +
			"mysql:DSN, such as mysql:user:password@tcp(host:3306)/ration", c.setDatabase},
	}
}

// limitOptions are how requests are decided and answered.
func (c *config) limitOptions() []option {
	return []option{
		{"outage", "share", "what decides while Redis is away: `share`, deny or allow",
			c.setOutage},
		{"processes", "0", "`number` of services that share Redis, for one that starts while Redis " +
			"is away: by share it admits its part. 0: it admits nothing then",
			number(&c.processes, 0, 65535)},
		{"timeout", "250ms", "`time` that a request waits for Redis at most, 1ms to 1m",
			duration(&c.timeout, time.Millisecond, time.Minute)},
		{"max-keys", "1000000", "`number` of keys of a domain that are kept in memory, at 1 KiB",
			number(&c.maxKeys, 1, 1<<31-1)},
		{"eager", "0", "`number` of tokens of a key that are admitted before Redis has answered, if it " +
			"is new to this service: each service may admit as many above a limit",
			number(&c.eager, 0, 1<<31-1)},
		{"headers", "false", "true: answers of gRPC have RateLimit-Limit, -Remaining and -Reset",
			boolean(&c.headers)},
		{"metadata", "false", "true: answers of gRPC have the metadata of rules",
			boolean(&c.metadata)},
		{"json", "false", "true: -http answers Envoy's protocol as JSON, too, at /json. It asks for no " +
			"token", boolean(&c.json)},
		{"what-if", "32", "`MiB` of memory for the decisions of the last hour, on which the page tries " +
			"other limits. 0: none are kept", number(&c.whatIf, 0, 4096)},
		{"stats", "ration", "`names` of metrics: ration, or envoy, which has those of " +
			"envoyproxy/ratelimit beside", c.setStats},
		{"rlqs", "0s", "`time` that an assignment of Envoy's rate limit quota service goes on at most " +
			"without another message, in whole seconds from 2s to 1m, such as 3s; 0s: it is not served",
			c.setRLQS},
	}
}

// tlsOptions are TLS of the listeners.
func (c *config) tlsOptions() []option {
	return []option{
		{"tls-cert", "", "`file` of the certificate of the listeners, with its chain, in PEM. It is " +
			"read again when it has changed", text(&c.tls.cert)},
		{"tls-key", "", "`file` of the key of that, in PEM", text(&c.tls.key)},
		{"tls", "", "`listeners` that have TLS, such as http,grpc. Default: all if there is a certificate",
			listenersOf(&c.tls.listeners)},
		{"tls-client-ca", "", "`file` of the authorities of clients' certificates, in PEM. It is read " +
			"again when it has changed", text(&c.tls.clientCA)},
		{"tls-clients", "", "`listeners` that refuse a client without a certificate of " +
			"-tls-client-ca. Default: grpc", listenersOf(&c.tls.clients)},
		{"tls-client-san", "", "`name` that the certificates of clients must have",
			text(&c.tls.clientSAN)},
	}
}

// runOptions are who may do what, and how the service runs.
func (c *config) runOptions() []option {
	return []option{
		{"proxies", "", "`prefixes` of proxies in front, such as 10.0.0.0/8,fd00::/8: they are " +
			"believed which address a client of the page has, and whether by TLS", prefixes(&c.proxies)},
		{"auth-header", "", "`header` with the name of a user that a proxy has logged in",
			text(&c.authHeader)},
		{"auth-proxies", "", "`prefixes` of the proxies whose auth-header is believed",
			prefixes(&c.authProxies)},
		{"reset-admin", "false", "true: the user admin gets a new password, which is printed, and " +
			"all rights; its sessions and tokens end; and so does the program", boolean(&c.resetAdmin)},
		{"log-level", "info", "`level`: debug, info, warn or error", c.setLogLevel},
		{"log-format", "auto", "`format`: text, json, or auto, which is text on a terminal",
			c.setLogFormat},
		{"drain", "0s", "`time` between the end of readiness and of listening, up to 5m",
			duration(&c.drain, 0, 5*time.Minute)},
		{"shutdown", "10s", "`time` that requests under way have to end, 1s to 5m",
			duration(&c.shutdown, time.Second, 5*time.Minute)},
	}
}

// configure reads the options: flags go before the environment, that before the file, and that
// before the defaults.
func configure(args []string, env func(string) string) (config, error) {
	var c config
	fs := flag.NewFlagSet("service", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run prints the usage, and the error
	for _, o := range c.options() {
		if o.value != "" {
			if err := o.set(o.value); err != nil {
				return c, fmt.Errorf("default of -%s: %w", o.name, err)
			}
		}
		fs.Func(o.name, o.usage, o.set)
	}
	if err := fs.Parse(args); err != nil {
		return c, clean(err)
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("argument %q is no flag: all arguments are flags", fs.Arg(0))
	}
	t, err := c.foreignEnv(env)
	if err != nil {
		return c, err
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for _, o := range c.options() {
		value := t.variable(env, o.variable())
		if given[o.name] || value == "" {
			continue
		}
		if err := fs.Set(o.name, value); err != nil {
			return c, fmt.Errorf("-%s by %s: %w", o.name, o.variable(), err)
		}
	}
	// Its own way into the environment is that of the process only, so it is not used.
	err = ff.Parse(fs, nil, ff.WithConfigFileVia(&c.file),
		ff.WithConfigFileParser(func(r io.Reader, set func(name, value string) error) error {
			return parseFile(c.file, r, set)
		}))
	if err != nil {
		return c, fmt.Errorf("-config %q: %w", c.file, err)
	}
	return c, c.together()
}

// foreignEnv reads the variables of envoyproxy/ratelimit if they are to be read, and else warns of
// those that look as if.
func (c *config) foreignEnv(env func(string) string) (t translated, err error) {
	if value := env(option{name: "names"}.variable()); value != "" && !c.foreign {
		if err := c.setNames(value); err != nil {
			return t, fmt.Errorf("-names by RATION_NAMES: %w", err)
		}
	}
	if c.foreign {
		t, err = translate(env)
		c.warnings = t.warnings
		return t, err
	}
	for _, name := range []string{"RUNTIME_ROOT", "REDIS_SOCKET_TYPE", "CONFIG_TYPE", "GRPC_PORT"} {
		if env(name) != "" {
			c.warnings = append(c.warnings, name+" is not read without -names envoy")
		}
	}
	return t, nil
}

func (c *config) setNames(value string) error {
	if value != "ration" && value != "envoy" {
		return fmt.Errorf("%q is not ration or envoy", value)
	}
	c.foreign = value == "envoy"
	return nil
}

// clean drops the value from an error of package flag: that of a password may be in it, and an
// option names it where it is no secret.
func clean(err error) error {
	text := err.Error()
	if _, after, ok := strings.Cut(text, " for flag "); ok && strings.HasPrefix(text, "invalid ") {
		return errors.New(after)
	}
	return err
}

// parseFile reads a file, in which each name may stand once. It reads all of it first: the parser
// of lines takes what cannot be read, such as a folder, or a line that is too long, for the end.
func parseFile(name string, r io.Reader, set func(name, value string) error) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		if len(line) >= bufio.MaxScanTokenSize {
			return fmt.Errorf("a line has %d bytes, and not less than 64 KiB", len(line))
		}
	}
	seen := map[string]bool{}
	once := func(name, value string) error {
		switch {
		case seen[name]:
			return fmt.Errorf("%q is there twice, or a list", name)
		case name == "config", name == "names":
			return fmt.Errorf("%q is of no use in a file", name)
		}
		seen[name] = true
		return set(name, value)
	}
	switch filepath.Ext(name) {
	case ".yaml", ".yml":
		return ffyaml.Parser(bytes.NewReader(text), once)
	}
	return ff.PlainParser(bytes.NewReader(text), once)
}

// together checks options that depend on each other.
func (c *config) together() error {
	if c.rules == "redis" && c.redis == nil {
		return fmt.Errorf("-rules redis:%s needs -redis", c.rulesName)
	}
	if (c.authHeader == "") != (len(c.authProxies) == 0) {
		return errors.New("-auth-header and -auth-proxies need each other")
	}
	if c.redis != nil { // as remote.Options says
		for _, of := range []*time.Duration{
			&c.redis.DialTimeout, &c.redis.ReadTimeout, &c.redis.WriteTimeout,
		} {
			*of = max(*of, 2*c.timeout)
		}
	}
	if err := errors.Join(c.openID.together(), c.xds.read()); err != nil {
		return err
	}
	return c.tls.read()
}

// usage prints what there is.
func usage(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "service limits requests by rules. Its options, with their defaults:")
	for _, o := range (&config{}).options() {
		value := o.value
		if value == "" {
			value = "none"
		}
		fmt.Fprintf(w, "  -%s\t%s\t%s\n", o.name, value, strings.ReplaceAll(o.usage, "`", ""))
	}
	fmt.Fprintln(w, "Each is a variable, too: -log-level is "+prefix+"LOG_LEVEL.")
	return w.Flush()
}

func text(to *string) func(string) error {
	return func(value string) error {
		*to = value
		return nil
	}
}

func folder(to *string) func(string) error {
	return func(value string) error {
		if strings.TrimSpace(value) == "" {
			return fmt.Errorf("%q is no folder", value)
		}
		*to = value
		return nil
	}
}

func address(to *string) func(string) error {
	return func(value string) error {
		_, port, err := net.SplitHostPort(value)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return fmt.Errorf("%q is not host:port, such as localhost:8080 or :8080", value)
		}
		*to = value
		return nil
	}
}

func (c *config) setMetrics(value string) error {
	c.metrics = ""
	if value == "none" {
		return nil
	}
	return address(&c.metrics)(value)
}

func duration(to *time.Duration, low, high time.Duration) func(string) error {
	return func(value string) error {
		d, err := time.ParseDuration(value)
		if err != nil || d < low || d > high {
			return fmt.Errorf("%q is not a time from %v to %v, such as %v", value, low, high,
				max(low, time.Second))
		}
		*to = d
		return nil
	}
}

// setRLQS reads whole seconds: Envoy cuts a life to them.
func (c *config) setRLQS(value string) error {
	if err := duration(&c.rlqs, 0, time.Minute)(value); err != nil {
		return err
	}
	if c.rlqs%time.Second != 0 || c.rlqs > 0 && c.rlqs < rlqs.Least {
		return fmt.Errorf("%q is not whole seconds from %v, or 0s", value, rlqs.Least)
	}
	return nil
}

func number(to *int, low, high int64) func(string) error {
	return func(value string) error {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < low || n > high {
			return fmt.Errorf("%q is not a number from %d to %d", value, low, high)
		}
		*to = int(n)
		return nil
	}
}

func prefixes(to *[]netip.Prefix) func(string) error {
	return func(value string) error {
		*to = nil
		for part := range strings.SplitSeq(value, ",") {
			p, err := netip.ParsePrefix(strings.TrimSpace(part))
			if err != nil {
				return fmt.Errorf("%q is not a prefix such as 10.0.0.0/8 or 192.0.2.7/32", part)
			}
			*to = append(*to, p.Masked())
		}
		return nil
	}
}

func boolean(to *bool) func(string) error {
	return func(value string) error {
		if value != "true" && value != "false" {
			return fmt.Errorf("%q is not true or false", value)
		}
		*to = value == "true"
		return nil
	}
}

func listenersOf(to *[]string) func(string) error {
	return func(value string) error {
		*to = strings.Split(value, ",")
		for _, name := range *to {
			if !slices.Contains(listenerNames, name) {
				return fmt.Errorf("%q is not a list of http, grpc and metrics", value)
			}
		}
		return nil
	}
}

// pairs reads "a=b,c=d". Its errors name no value: headers may be secret.
func pairs(to *map[string]string) func(string) error {
	return func(value string) error {
		all := map[string]string{}
		for pair := range strings.SplitSeq(value, ",") {
			name, value, found := strings.Cut(pair, "=")
			if !found || name == "" {
				return errors.New("it is not a list of pairs, such as zone=a,tier=b")
			}
			all[name] = value
		}
		*to = all
		return nil
	}
}

func (c *config) setStats(value string) error {
	if value != "ration" && value != "envoy" {
		return fmt.Errorf("%q is not ration or envoy", value)
	}
	c.envoyStats = value == "envoy"
	return nil
}

func (c *config) setRules(value string) error {
	kind, name, found := strings.Cut(value, ":")
	switch {
	case value == "database", found && name != "" && (kind == "redis" || kind == "files"),
		kind == "xds" && address(new(string))(name) == nil:
		c.rules, c.rulesName = kind, name
		return nil
	}
	return fmt.Errorf("%q is not database, redis:NAME, files:PATH or xds:HOST:PORT", value)
}

// setDatabase names no value in its errors: it may have a password.
func (c *config) setDatabase(value string) error {
	const right = "it is not sqlite or mysql:DSN, such as mysql:user:password@tcp(host:3306)/ration"
	dsn, found := strings.CutPrefix(value, "mysql:")
	if !found {
		if value != "sqlite" {
			return errors.New(right)
		}
		c.database = nil
		return nil
	}
	parsed, err := mysql.ParseDSN(dsn)
	if err != nil || parsed.DBName == "" {
		return errors.New(right)
	}
	if parsed.Timeout == 0 {
		parsed.Timeout = 5 * time.Second // to dial; the driver's default is that of the system
	}
	c.database = parsed
	return nil
}

func (c *config) setOutage(value string) error {
	for _, o := range []hybrid.Outage{hybrid.Share, hybrid.Deny, hybrid.Allow} {
		if o.String() == value {
			c.outage = o
			return nil
		}
	}
	return fmt.Errorf("%q is not share, deny or allow", value)
}

func (c *config) setLogLevel(value string) error {
	switch value {
	case "debug", "info", "warn", "error":
		return c.logLevel.UnmarshalText([]byte(value))
	}
	return fmt.Errorf("%q is not debug, info, warn or error", value)
}

func (c *config) setLogFormat(value string) error {
	switch value {
	case "auto", "text", "json":
		c.logFormat = value
		return nil
	}
	return fmt.Errorf("%q is not auto, text or json", value)
}
