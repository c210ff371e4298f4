package main

import (
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/remote/redistest"
)

// TestRedisURL: one option names a server, a socket, a Cluster or Sentinels.
func TestRedisURL(t *testing.T) {
	for value, want := range map[string]struct {
		kind, addrs, user, sentinel string
		db                          int
		tls                         string // the name in the certificate
	}{
		"redis://ann:pw@h:1/2":   {"one", "h:1", "ann pw", " ", 2, ""},
		"rediss://:pw@h":         {"one", "h:6379", " pw", " ", 0, "h"},
		"unix://ann:pw@/s?db=3":  {"one", "/s", "ann pw", " ", 3, ""},
		"redis://h?cluster=true": {"cluster", "h:6379", " ", " ", 0, ""},
		"rediss://:pw@h:1?cluster=true&addr=i:2&addr=j:3": {
			"cluster", "h:1 i:2 j:3", " pw", " ", 0, "h",
		},
		"redis://h:1?master_name=m": {"m", "h:1", " ", " ", 0, ""},
		"rediss://sen:hush@h:1/4?master_name=m&addr=i:2&username=ann&password=p%26w": {
			"m", "h:1 i:2", "ann p&w", "sen hush", 4, "h",
		},
	} {
		var c config
		if err := c.setRedis(value); err != nil {
			t.Errorf("%s: %v", value, err)
			continue
		}
		o, kind, name := c.redis, c.redis.MasterName, ""
		if o.IsClusterMode {
			kind += "cluster"
		} else if kind == "" {
			kind = "one"
		}
		if o.TLSConfig != nil {
			name = o.TLSConfig.ServerName
		}
		if kind != want.kind || strings.Join(o.Addrs, " ") != want.addrs || o.DB != want.db ||
			o.Username+" "+o.Password != want.user || name != want.tls ||
			o.SentinelUsername+" "+o.SentinelPassword != want.sentinel {
			t.Errorf("%s: %+v", value, o)
		}
	}
}

// TestPatience: a client of Redis waits for as long as a request may, and longer.
func TestPatience(t *testing.T) {
	for timeout, want := range map[string]time.Duration{
		"1ms": 500 * time.Millisecond, "250ms": 500 * time.Millisecond, "2s": 4 * time.Second,
	} {
		c, err := configure([]string{"-redis", "redis://h", "-timeout", timeout},
			func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range []time.Duration{
			c.redis.DialTimeout, c.redis.ReadTimeout, c.redis.WriteTimeout,
		} {
			if of != want {
				t.Errorf("-timeout %s: %v, not %v", timeout, of, want)
			}
		}
	}
}

// user makes a user of Redis, with a password that is secret, and returns a function that tells
// whether the server has a client that has logged in as that user.
func user(t *testing.T, s *redistest.Server, name string) (known func() bool) {
	t.Helper()
	client := s.Client()
	err := client.Do(t.Context(), "acl", "setuser", name, "on", ">secret", "~*", "&*", "+@all").Err()
	if err != nil {
		t.Fatal(err)
	}
	return func() bool {
		return strings.Contains(client.ClientList(t.Context()).Val(), "user="+name)
	}
}

// secretIn are the service's options for a URL of Redis: by a file, since other users see flags.
func secretIn(t *testing.T, url string) []string {
	t.Helper()
	return []string{
		"-config", write(t, "service.yaml", "redis: '"+url+"'\n"), "-data", t.TempDir(),
		"-rules", "redis:test", "-seed", "true", "-outage", "deny", "-log-level", "debug",
	}
}

// TestCluster: the limits, the rules and the tries to log in are on a Cluster, of which the service
// knows one node.
func TestCluster(t *testing.T) {
	nodes := redistest.StartCluster(t, 3, 0)
	var known []func() bool
	for _, node := range nodes.Masters {
		known = append(known, user(t, node, "ann"))
	}
	w := shop(t, secretIn(t, "redis://ann:secret@"+nodes.Masters[0].Addr+"?cluster=true")...)
	if !w.take(10) || w.take(1) {
		t.Error("10 in an hour are not 10, or are 11")
	}
	for i, known := range known {
		if !known() {
			t.Errorf("nobody has logged in at node %d", i)
		}
	}
	slot := nodes.Slot("ration:rules.shop:user=ann")
	owner, _ := nodes.Owner(slot)
	if n := owner.Client().ClusterCountKeysInSlot(t.Context(), slot).Val(); n != 1 {
		t.Errorf("%d keys where ann's should be", n)
	}
	w.end(t)
	w.keeps("secret")
}

// TestSentinel: the service finds the master by its Sentinels, and the next one when that has died.
func TestSentinel(t *testing.T) {
	servers := redistest.StartSentinels(t)
	atMaster := user(t, servers.Master, "ann")
	atReplica := user(t, servers.Replica, "ann")
	var asked []func() bool
	var addrs []string
	for _, s := range servers.Watchers {
		asked = append(asked, user(t, s, "sentry"))
		addrs = append(addrs, s.Addr)
	}
	w := shop(t, secretIn(t, "redis://sentry:secret@"+addrs[0]+"?master_name="+
		redistest.SentinelMaster+"&addr="+addrs[1]+"&addr="+addrs[2]+
		"&username=ann&password=secret")...)
	if !w.take(4) {
		t.Error("10 in an hour are not 4")
	}
	if !atMaster() || !slices.ContainsFunc(asked, func(known func() bool) bool { return known() }) {
		t.Error("nobody has logged in at the master, or at a Sentinel")
	}
	servers.Master.Kill()
	servers.AwaitMaster(servers.Replica)
	w.soon("limits go on with the new master", func() bool {
		body, _ := ann(1)
		a, err := w.visitor.API(t.Context(), "POST", "v1/take", body)
		return err == nil && strings.Contains(a.Text, `"allowed":true`) && atReplica()
	})
	w.end(t)
	w.keeps("secret")
}

// TestRedisTLS: a Cluster is asked over TLS, also at the addresses that it tells, and only with a
// certificate of the URL's host.
func TestRedisTLS(t *testing.T) {
	if has := redistest.Start(t).Client().ConfigGet(t.Context(), "tls-port").Val(); len(has) == 0 {
		t.Skip("this redis-server is built without TLS")
	}
	known := httptest.NewTLSServer(nil) // has a certificate of 127.0.0.1
	defer known.Close()
	certificate := known.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	file := func(kind string, der []byte) string {
		return write(t, "file.pem", string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	}
	cert := file("CERTIFICATE", certificate.Certificate[0])
	addr := redistest.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	redistest.StartCluster(t, 1, 0, "tls-port "+port, "tls-auth-clients no", "tls-cert-file "+cert,
		"tls-key-file "+file("PRIVATE KEY", key), "tls-ca-cert-file "+cert,
		"tls-cluster yes", "cluster-node-timeout 1000") // it waits that long for itself

	roots := x509.NewCertPool()
	roots.AddCert(known.Certificate())
	for url, right := range map[string]bool{
		"rediss://" + addr + "?cluster=true":             true,
		"rediss://" + addr:                               true,
		"redis://" + addr + "?cluster=true":              false, // without TLS
		"rediss://localhost:" + port:                     false, // a name that it has not
		"rediss://localhost:" + port + "?cluster=true":   false,
		"rediss://127.0.0.1:1?cluster=true&addr=" + addr: true,
	} {
		var c config
		if err := c.setRedis(url); err != nil {
			t.Fatal(err)
		}
		if c.redis.TLSConfig != nil {
			c.redis.TLSConfig.RootCAs = roots
		}
		client := redis.NewUniversalClient(c.redis)
		err := client.Set(t.Context(), "x", 1, 0).Err()
		client.Close()
		if (err == nil) != right {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestEager: with -eager the first tokens of a key need no answer of Redis.
func TestEager(t *testing.T) {
	server := redistest.Start(t)
	r := start(t, "-data", t.TempDir(), "-redis", "redis://"+server.Addr, "-timeout", "1m",
		"-eager", "60")
	conn := r.dial(t)
	if err := server.Client().Do(t.Context(), "client", "pause", "600000").Err(); err != nil {
		t.Fatal(err)
	}
	if !ask(t, conn, upload) {
		t.Error("60 tokens are not admitted")
	}
	server.Kill() // leases are not handed back
}
