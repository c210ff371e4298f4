package remote_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// authority signs certificates for one test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, pool: x509.NewCertPool()}
	pair := a.issue(&x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	a.cert, a.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	a.pool.AddCert(a.cert)
	return a
}

// issue signs a certificate, the first one by itself.
func (a *authority) issue(c *x509.Certificate) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.Subject = pkix.Name{CommonName: "ration test " + c.SerialNumber.String()}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// write puts PEM files of a certificate and its key where redis-server finds them.
func (a *authority) write(c tls.Certificate) (cert, key string) {
	dir := a.t.TempDir()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			a.t.Fatal(err)
		}
		return path
	}
	return file("cert.pem", "CERTIFICATE", c.Certificate[0]), file("key.pem", "PRIVATE KEY", der)
}

// TestTLS: exchanges through TLS, with a certificate on each side; and neither
// side talks to who has none, or one of another authority.
func TestTLS(t *testing.T) {
	if has := redistest.Start(t).Client().ConfigGet(t.Context(), "tls-port").Val(); len(has) == 0 {
		t.Skip("this redis-server is built without TLS")
	}
	ours, theirs := newAuthority(t), newAuthority(t)
	clientCert := func(a *authority) []tls.Certificate {
		return []tls.Certificate{
			a.issue(&x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}),
		}
	}
	ca, _ := ours.write(tls.Certificate{Certificate: [][]byte{ours.cert.Raw}, PrivateKey: ours.key})
	cert, key := ours.write(ours.issue(&x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}))
	addr := redistest.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	redistest.Start(t, "tls-port "+port, "tls-cert-file "+cert, "tls-key-file "+key,
		"tls-ca-cert-file "+ca, "tls-auth-clients yes")

	calls := keys(20)
	try := func(config *tls.Config) error {
		opt := remote.Options(addr)
		opt.TLSConfig = config
		remote.New(client(t, opt)).Exchange(t.Context(), next(calls))
		return calls[0].Err
	}
	if err := try(&tls.Config{RootCAs: ours.pool, Certificates: clientCert(ours)}); err != nil {
		t.Error(err)
	}
	for name, config := range map[string]*tls.Config{
		"no TLS":                           nil,
		"no certificate":                   {RootCAs: ours.pool},
		"a client's certificate of others": {RootCAs: ours.pool, Certificates: clientCert(theirs)},
		"a server that others would have to vouch for": {
			RootCAs: theirs.pool, Certificates: clientCert(ours),
		},
		"a server of another name": {
			RootCAs: ours.pool, Certificates: clientCert(ours), ServerName: "redis.example",
		},
	} {
		if try(config) == nil {
			t.Errorf("%s will do", name)
		}
	}
}
