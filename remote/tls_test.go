package remote_test

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// TestTLS: exchanges through TLS, with a certificate on each side; and neither
// side talks to who has none, or one of another authority.
func TestTLS(t *testing.T) {
	if has := redistest.Start(t).Client().ConfigGet(t.Context(), "tls-port").Val(); len(has) == 0 {
		t.Skip("this redis-server is built without TLS")
	}
	ours, theirs := redistest.NewAuthority(t), redistest.NewAuthority(t)
	clientCert := func(a *redistest.Authority) []tls.Certificate {
		return []tls.Certificate{a.Client()}
	}
	addr := redistest.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	redistest.Start(t, ours.Config(port)...)

	calls := keys(20)
	try := func(config *tls.Config) error {
		opt := remote.Options(addr)
		opt.TLSConfig = config
		remote.New(client(t, opt)).Exchange(t.Context(), next(calls))
		return calls[0].Err
	}
	if err := try(&tls.Config{RootCAs: ours.Pool, Certificates: clientCert(ours)}); err != nil {
		t.Error(err)
	}
	for name, config := range map[string]*tls.Config{
		"no TLS":                           nil,
		"no certificate":                   {RootCAs: ours.Pool},
		"a client's certificate of others": {RootCAs: ours.Pool, Certificates: clientCert(theirs)},
		"a server that others would have to vouch for": {
			RootCAs: theirs.Pool, Certificates: clientCert(ours),
		},
		"a server of another name": {
			RootCAs: ours.Pool, Certificates: clientCert(ours), ServerName: "redis.example",
		},
	} {
		if try(config) == nil {
			t.Errorf("%s will do", name)
		}
	}
}
