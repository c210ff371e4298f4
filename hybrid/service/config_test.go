package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPrecedence: flags go before the environment, that before the file, and that before the
// defaults. Both formats of a file are read.
func TestPrecedence(t *testing.T) {
	env := func(name string) string {
		return map[string]string{"RATION_TIMEOUT": "2s", "RATION_LOG_LEVEL": "warn"}[name]
	}
	for name, text := range map[string]string{
		"c.yaml": "timeout: 3s\nlog-level: error\ndrain: 4s\nheaders: true\n",
		"c.conf": "timeout 3s\nlog-level error\n# a comment\ndrain 4s\nheaders true\n",
	} {
		c, err := configure([]string{"-config", write(t, name, text), "-timeout", "1s"}, env)
		if err != nil {
			t.Fatal(err)
		}
		if c.timeout != time.Second || c.logLevel.String() != "WARN" || c.drain != 4*time.Second ||
			!c.headers || c.http != "localhost:8080" {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestOff: Envoys that decide by themselves are served only where that is asked for.
func TestOff(t *testing.T) {
	for value, want := range map[string]time.Duration{"": 0, "3s": 3 * time.Second} {
		c, err := configure(nil, func(name string) string {
			return map[string]string{"RATION_RLQS": value}[name]
		})
		if err != nil || c.rlqs != want {
			t.Errorf("RATION_RLQS=%q: %v, %v, not %v", value, c.rlqs, err, want)
		}
	}
}

// TestBadValues: each is an error that names the option, the value and what is right, and no
// secret.
func TestBadValues(t *testing.T) {
	for _, try := range []struct{ name, value, right string }{
		{"http", "nowhere", "host:port"},
		{"grpc", "localhost:http", "host:port"},
		{"metrics", "nothing", "host:port"},
		{"data", " ", "folder"},
		{"redis", "http://:secret@host", "redis://"},
		{"redis", "redis://:secret@host:x", "redis://"},
		{"redis", "redis://:secret@host:1?pool_size=secret", "question mark"},
		{"redis", "redis://:secret@host:1?%zz", "redis://"},
		{"redis", "redis://:secret@host:1?addr=host:2", "question mark"},
		{"redis", "redis://:secret@host:1?cluster=1", "cluster=true"},
		{"redis", "redis://:secret@host:1/1?cluster=true", "cluster=true"},
		{"redis", "unix://:secret@/socket?cluster=true", "cluster=true"},
		{"redis", "redis://:secret@host:1?cluster=true&addr=secret", "cluster=true"},
		{"redis", "redis://:secret@host:1?cluster=true&cluster=true", "twice"},
		{"redis", "redis://:secret@host:1?cluster=true&master_name=m", "belong"},
		{"redis", "redis://:secret@host:1?master_name=m&pool_size=1", "belong"},
		{"redis", "redis://:secret@host:1?master_name=", "master_name"},
		{"redis", "redis://:secret@host?master_name=m", "master_name"},
		{"redis", "redis://:secret@host:1?master_name=m&addr=host", "master_name"},
		{"redis", "redis://:secret@host:1?pool_size=5", "question mark"},
		{"rules", "files", "files:PATH"},
		{"rules", "redis:", "redis:NAME"},
		{"rules", "xds:host", "xds:HOST:PORT"},
		{"xds-headers", "token:secret", "zone=a"},
		{"database", "mysql:secret", "mysql:DSN"},
		{"database", "mysql:u:secret@tcp(h)/", "mysql:DSN"},
		{"database", "postgres:secret", "mysql:DSN"},
		{"public-url", "ration.example.com", "https://HOST"},
		{"oidc-issuer", "http://issuer.example", "loopback"},
		{"oidc-issuer", "https://u:secret@issuer.example", "it has a user"},
		{"oidc-issuer", "https://issuer.example#x", "fragment"},
		{"oidc-issuer", "https://issuer.example:99999", "PORT"},
		{"public-url", "https://ration.example.com/limits", "a path"},
		{"oidc-scopes", "profile", "lacks openid"},
		{"oidc-groups-claim", " ", "empty"},
		{"oidc-rights", "platform", "{platform: {"},
		{"oidc-rights", "{}", "no group"},
		{"oidc-rights", "{ops: {}}", "no rights"},
		{"oidc-rights", "{ops: {shop: owner}}", "viewer, editor or admin"},
		{"oidc-rights", "{ops: {shop: none}}", "viewer, editor or admin"},
		{"oidc-rights", "{ops: {shop: [admin]}}", "{platform: {"},
		{"oidc-rights", "{ops: {*: admin}}", "{platform: {"},
		{"oidc-rights", "{ops: {a: admin}, ops: {b: viewer}}", "{platform: {"},
		{"oidc-rights", "{ops: {a: admin, a: viewer}}", "{platform: {"},
		{"oidc-rights", "{ops: {a: admin}} {x: {a: admin}}", "{platform: {"},
		{"outage", "maybe", "share, deny or allow"},
		{"timeout", "0s", "1ms to 1m"},
		{"timeout", "5", "1ms to 1m"},
		{"processes", "65536", "from 0 to 65535"},
		{"connections", "0", "from 1 to 1000000"},
		{"max-keys", "-1", "from 1"},
		{"headers", "perhaps", "true or false"},
		{"rlqs", "1s", "whole seconds from 2s"},
		{"rlqs", "2500ms", "whole seconds"},
		{"rlqs", "2m", "0s to 1m"},
		{"log-level", "INFO+2", "debug, info"},
		{"log-format", "xml", "json"},
		{"drain", "1h", "5m"},
		{"shutdown", "0s", "1s"},
	} {
		file := write(t, "c.yaml", try.name+": '"+try.value+"'\n")
		variable := option{name: try.name}.variable()
		for from, configured := range map[string]func() (config, error){
			"flag": func() (config, error) {
				return configure([]string{"-" + try.name, try.value}, os.Getenv)
			},
			"environment": func() (config, error) {
				return configure(nil, func(name string) string {
					return map[string]string{variable: try.value}[name]
				})
			},
			"file": func() (config, error) {
				return configure([]string{"-config", file}, func(string) string { return "" })
			},
		} {
			_, err := configured()
			if err == nil {
				t.Errorf("%s: %s %q is accepted", from, try.name, try.value)
				continue
			}
			secret := strings.Contains(try.value, "secret")
			if text := err.Error(); !strings.Contains(text, try.name) ||
				!strings.Contains(text, try.right) ||
				strings.Contains(text, try.value) == secret || strings.Contains(text, "secret") {
				t.Errorf("%s: %s %q: %v", from, try.name, try.value, err)
			}
		}
	}
}

// TestBadFiles: what a file may not have.
func TestBadFiles(t *testing.T) {
	none := func(string) string { return "" }
	for want, file := range map[string]string{
		"nope":      write(t, "c.yaml", "nope: 1\n"),
		"twice":     write(t, "c.yaml", "http: ['localhost:1', 'localhost:2']\n"),
		"no use":    write(t, "c.yaml", "config: other\n"),
		"no such":   filepath.Join(t.TempDir(), "missing.yaml"),
		"YAML":      write(t, "c.yaml", "http\n  - :"),
		"directory": filepath.Dir(write(t, "x", "")),
		"64 KiB":    write(t, "c.conf", "# "+strings.Repeat("x", 1<<16)+"\nnope 1\n"),
		`"other"`:   write(t, "c.conf", "other 1\n"),
		`"outage"`:  write(t, "c.conf", "outage deny\noutage allow\n"),
	} {
		if _, err := configure([]string{"-config", file}, none); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for want, args := range map[string][]string{
		"-redis":   {"-rules", "redis:x"},
		`"start"`:  {"start"},
		"-unknown": {"-unknown"},
	} {
		if _, err := configure(args, none); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestUsage: -h prints all options and no error.
func TestUsage(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"-h"}, os.Getenv, &out); err != nil {
		t.Fatal(err)
	}
	for _, o := range (&config{}).options() {
		if !strings.Contains(out.String(), "  -"+o.name+" ") {
			t.Errorf("-%s is not in\n%s", o.name, out.String())
		}
	}
}

// TestListed: docs/service.md has a row for each option, with its default, names those of a control
// plane, and says how variables are named.
func TestListed(t *testing.T) {
	page, err := os.ReadFile("../../docs/service.md")
	if err != nil {
		t.Fatal(err)
	}
	level := option{name: "log-level"}
	if !strings.Contains(string(page), "`-log-level` is `"+level.variable()+"`") {
		t.Error("it does not name the variable of -log-level")
	}
	for _, o := range (&config{}).options() {
		value := "`" + o.value + "`"
		if o.value == "" {
			value = "none"
		}
		row := fmt.Sprintf("| `-%s` | %s | ", o.name, value)
		if strings.HasPrefix(o.name, "xds-") && o.name != "xds-node" {
			row = fmt.Sprintf("`-%s`", o.name)
		}
		if !strings.Contains(string(page), row) {
			t.Errorf("it does not have %s", row)
		}
	}
}
