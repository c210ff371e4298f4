package redistest

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
)

// An Authority signs certificates for one test.
type Authority struct {
	Pool *x509.CertPool // for peers that trust the Authority

	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns an Authority that signs its own certificate.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, Pool: x509.NewCertPool()}
	pair := a.issue(&x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	a.cert, a.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	a.Pool.AddCert(a.cert)
	return a
}

// Client issues a certificate for a client.
func (a *Authority) Client() tls.Certificate {
	a.t.Helper()
	return a.issue(&x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// Server issues a certificate for a server on loopback, which may be a client of other servers.
func (a *Authority) Server() tls.Certificate {
	a.t.Helper()
	return a.issue(&x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

// issue signs a certificate, the first one by itself.
func (a *Authority) issue(c *x509.Certificate) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatalf("redistest: %v", err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.Subject = pkix.Name{CommonName: "ration test " + c.SerialNumber.String()}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatalf("redistest: %v", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatalf("redistest: %v", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// PEM is the authority's own certificate, for processes that are to trust it.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Config is lines of redis.conf: the server talks TLS at a port, has a certificate of the
// Authority, and wants a certificate of its clients. Replication and the cluster bus talk TLS, too.
func (a *Authority) Config(port string) []string {
	a.t.Helper()
	c := a.Server()
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		a.t.Fatalf("redistest: %v", err)
	}
	dir := a.t.TempDir()
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			a.t.Fatalf("redistest: %v", err)
		}
		return path
	}
	return []string{
		"tls-port " + port, "tls-auth-clients yes", "tls-replication yes", "tls-cluster yes",
		"tls-ca-cert-file " + file("ca.pem", a.PEM()),
		"tls-cert-file " + file("cert.pem",
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})),
		"tls-key-file " + file("key.pem",
			pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
	}
}
