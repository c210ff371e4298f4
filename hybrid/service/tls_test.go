package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// An authority makes certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// pair is a certificate and its key in PEM.
func pair(t *testing.T, template, parent *x509.Certificate, by *ecdsa.PrivateKey) (
	cert, key []byte, own *ecdsa.PrivateKey,
) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = own
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &own.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: plain}), own
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	text, _, key := pair(t, template, template, nil)
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key, text}
}

// certificate makes one of a name, for servers and clients.
func (a authority) certificate(t *testing.T, serial int64, name string) (cert, key []byte) {
	t.Helper()
	cert, key, _ = pair(t, &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, a.key)
	return cert, key
}

// client is the TLS of a client that believes the authority, and shows a certificate of a name, or
// none.
func (a authority) client(t *testing.T, name string) *tls.Config {
	t.Helper()
	c := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
	c.RootCAs.AddCert(a.cert)
	if name != "" {
		own, err := tls.X509KeyPair(a.certificate(t, 7, name))
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c
}

// TestTLS: all listeners have TLS, calls of gRPC need a certificate of the right authority and
// name, and one that was replaced is shown to the next client. So are authorities.
func TestTLS(t *testing.T) {
	dir, ours, other := t.TempDir(), newAuthority(t), newAuthority(t)
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cert, key := ours.certificate(t, 2, "localhost")
	certFile, keyFile := file("cert.pem", cert), file("key.pem", key)
	r := start(t, "-data", dir, "-tls-cert", certFile, "-tls-key", keyFile,
		"-tls-client-ca", file("ca.pem", ours.pem), "-tls-client-san", "envoy")

	get := func(url string) (serial int64, err error) {
		client := http.Client{Transport: &http.Transport{
			TLSClientConfig: ours.client(t, ""), DisableKeepAlives: true,
		}}
		resp, err := client.Get(url)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", url, resp.Status)
		}
		return resp.TLS.PeerCertificates[0].SerialNumber.Int64(), nil
	}
	for _, url := range []string{r.http + "readyz", r.metrics} {
		if serial, err := get(url); err != nil || serial != 2 {
			t.Errorf("%s: certificate %d, %v", url, serial, err)
		}
	}
	if resp, err := http.Get("http" + strings.TrimPrefix(r.http, "https") + "readyz"); err == nil {
		if resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("without TLS: %s", resp.Status)
		}
	}

	check := func(c *tls.Config) error {
		conn, err := grpc.NewClient(r.grpc, grpc.WithTransportCredentials(credentials.NewTLS(c)))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = healthpb.NewHealthClient(conn).Check(t.Context(),
			&healthpb.HealthCheckRequest{Service: healthName})
		return err
	}
	stranger := other.client(t, "envoy")
	stranger.RootCAs = ours.client(t, "").RootCAs
	for who, c := range map[string]*tls.Config{
		"no certificate": ours.client(t, ""), "another name": ours.client(t, "proxy"),
		"another authority": stranger,
	} {
		if err := check(c); err == nil {
			t.Errorf("%s is let in", who)
		}
	}
	if err := check(ours.client(t, "envoy")); err != nil {
		t.Error(err)
	}

	file("key.pem", bytes.Repeat([]byte("x"), 9)) // half of a change
	if serial, err := get(r.metrics); err != nil || serial != 2 {
		t.Errorf("certificate %d, %v", serial, err)
	}
	cert, key = ours.certificate(t, 3, "localhost")
	file("cert.pem", cert)
	file("key.pem", key)
	later := time.Now().Add(time.Second) // the clock of files may be coarse
	if err := os.Chtimes(keyFile, later, later); err != nil {
		t.Fatal(err)
	}
	if serial, err := get(r.metrics); err != nil || serial != 3 {
		t.Errorf("certificate %d, %v", serial, err)
	}

	authorities := file("ca.pem", other.pem)
	if err := os.Chtimes(authorities, later, later); err != nil {
		t.Fatal(err)
	}
	if err := check(stranger); err != nil {
		t.Errorf("the new authority: %v", err)
	}
	if err := check(ours.client(t, "envoy")); err == nil {
		t.Error("the authority of before is still believed")
	}
}

// TestBadTLS: options that do not go together, and files without what they should have.
func TestBadTLS(t *testing.T) {
	cert, key := newAuthority(t).certificate(t, 2, "localhost")
	certFile, keyFile := write(t, "cert.pem", string(cert)), write(t, "key.pem", string(key))
	pair, ca := []string{"-tls-cert", certFile, "-tls-key", keyFile}, []string{"-tls-client-ca", certFile}
	for want, args := range map[string][]string{
		"-tls needs":                 {"-tls", "grpc"},
		"-tls-clients needs":         append(pair[:4:4], "-tls-clients", "grpc,http"),
		"-tls-clients has grpc, ":    slices.Concat(pair, ca, []string{"-tls", "http,metrics"}),
		"-tls-clients has http, ":    slices.Concat(pair, ca, []string{"-tls", "grpc", "-tls-clients", "grpc,http"}),
		"need each other":            {"-tls-cert", certFile},
		"-tls-client-ca needs":       {"-tls-client-ca", certFile},
		"-tls-client-san needs":      {"-tls-client-san", "x"},
		"-tls-cert":                  {"-tls-cert", keyFile, "-tls-key", keyFile},
		"has no certificate":         {"-tls-cert", certFile, "-tls-key", keyFile, "-tls-client-ca", keyFile},
		"is not a list of http":      {"-tls", "http,all"},
		"is not a list of http, grp": {"-tls-clients", "everybody"},
	} {
		if _, err := configure(args, func(string) string { return "" }); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	args := slices.Concat(pair, ca, []string{"-tls", "grpc,http", "-tls-clients", "grpc,http"})
	c, err := configure(args, func(string) string { return "" })
	if err != nil || c.tls.of("http", nil).ClientAuth != tls.RequireAndVerifyClientCert {
		t.Errorf("http asks for no certificate: %v", err)
	}
}

// TestJSON: /json and /healthcheck answer as those of envoyproxy/ratelimit.
func TestJSON(t *testing.T) {
	rules := write(t, "d.yaml", "domain: d\ndescriptors:\n- key: k\n  rate_limit: "+
		"{unit: year, requests_per_unit: 1}\n")
	r := start(t, "-data", t.TempDir(), "-rules", "files:"+rules, "-json", "true")
	const one = `{"domain": "d", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]}`
	for _, c := range []struct {
		body string
		code int
		says string
	}{
		{one, 200, `"overallCode":"OK"`}, {one, 429, `"overallCode":"OVER_LIMIT"`},
		{"{", 400, "Bad Request"}, {`{"domain": "d"}`, 400, "Bad Request"},
		{`{"domain": "` + strings.Repeat("d", 200_000) + `"}`, 400, "Bad Request"},
	} {
		resp, err := http.Post(r.http+"json", "application/json", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		_, _ = text.ReadFrom(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.code || !strings.Contains(strings.ReplaceAll(text.String(), " ", ""),
			strings.ReplaceAll(c.says, " ", "")) {
			t.Errorf("%.80s: %s %s", c.body, resp.Status, &text)
		}
	}
	page, err := http.NewRequest("POST", r.http+"json", strings.NewReader(one))
	if err != nil {
		t.Fatal(err)
	}
	page.Header.Set("Sec-Fetch-Site", "cross-site")
	if resp, err := http.DefaultClient.Do(page); err != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another origin: %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
	resp, err := http.Get(r.http + "healthcheck")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", resp, err)
	}
	resp.Body.Close()
}
