package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// listenerNames are the listeners of a service.
var listenerNames = []string{"http", "grpc", "metrics"}

// tlsConfig is TLS of the listeners.
type tlsConfig struct {
	cert, key, clientCA, clientSAN string
	listeners, clients             []string // of which it is, and which ask clients for certificates

	own *reloaded[tls.Certificate]
	cas *reloaded[x509.CertPool]
}

// check checks options that depend on each other: nobody is to believe in TLS that is not there.
func (c *tlsConfig) check() error {
	switch {
	case (c.cert == "") != (c.key == ""):
		return errors.New("-tls-cert and -tls-key need each other")
	case c.cert == "" && c.clientCA != "":
		return errors.New("-tls-client-ca needs -tls-cert")
	case c.cert == "" && c.listeners != nil:
		return errors.New("-tls needs -tls-cert")
	case c.clientCA == "" && c.clientSAN != "":
		return errors.New("-tls-client-san needs -tls-client-ca")
	case c.clientCA == "" && c.clients != nil:
		return errors.New("-tls-clients needs -tls-client-ca")
	}
	return nil
}

// read reads the files, after a check, and fills in defaults.
func (c *tlsConfig) read() error {
	if err := c.check(); err != nil || c.cert == "" {
		return err
	}
	if c.listeners == nil {
		c.listeners = listenerNames
	}
	c.own = &reloaded[tls.Certificate]{files: []string{c.cert, c.key}, read: readPair}
	if _, err := c.own.load(slog.Default()); err != nil {
		return fmt.Errorf("-tls-cert %q, -tls-key %q: %w", c.cert, c.key, err)
	}
	if c.clientCA == "" {
		return nil
	}
	if c.clients == nil {
		c.clients = []string{"grpc"}
	}
	for _, name := range c.clients {
		if !slices.Contains(c.listeners, name) {
			return fmt.Errorf("-tls-clients has %s, and -tls has not", name)
		}
	}
	c.cas = &reloaded[x509.CertPool]{files: []string{c.clientCA}, read: readAuthorities}
	if _, err := c.cas.load(slog.Default()); err != nil {
		return fmt.Errorf("-tls-client-ca %q: %w", c.clientCA, err)
	}
	return nil
}

// of is the TLS of a listener, or nil.
func (c *tlsConfig) of(listener string, log *slog.Logger) *tls.Config {
	if c.own == nil || !slices.Contains(c.listeners, listener) {
		return nil
	}
	t := &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.own.load(log)
		},
	}
	if c.cas == nil || !slices.Contains(c.clients, listener) {
		return t
	}
	t.ClientAuth = tls.RequireAndVerifyClientCert
	if c.clientSAN != "" {
		t.VerifyConnection = func(s tls.ConnectionState) error {
			return s.PeerCertificates[0].VerifyHostname(c.clientSAN)
		}
	}
	base := t.Clone()
	t.GetConfigForClient = func(*tls.ClientHelloInfo) (own *tls.Config, err error) {
		own = base.Clone()
		own.ClientCAs, err = c.cas.load(log)
		return own, err
	}
	return t
}

// A reloaded is what some files have, which may be replaced while the service runs.
type reloaded[T any] struct {
	files []string
	read  func(files []string) (*T, error)

	mu      sync.Mutex
	last    *T
	changed []time.Time // of the files as they were read last
}

// load returns what the files have, which are read when one of them has changed. While they cannot
// be read, or do not belong together yet, the last good one stays.
func (r *reloaded[T]) load(log *slog.Logger) (*T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := make([]time.Time, len(r.files))
	for i, name := range r.files {
		if info, err := os.Stat(name); err == nil {
			changed[i] = info.ModTime()
		}
	}
	if r.last != nil && slices.Equal(changed, r.changed) {
		return r.last, nil
	}
	next, err := r.read(r.files)
	r.changed = changed
	switch {
	case err == nil:
		r.last = next
	case r.last == nil:
		return nil, err
	default:
		log.Warn("TLS goes on with the files of before", "files", r.files, "error", err)
	}
	return r.last, nil
}

// readPair reads a certificate and its key.
func readPair(files []string) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(files[0], files[1])
	return &pair, err
}

// readAuthorities reads the certificates of authorities.
func readAuthorities(files []string) (*x509.CertPool, error) {
	text, err := os.ReadFile(files[0])
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("it has no certificate in PEM")
	}
	return pool, nil
}
