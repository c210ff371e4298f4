package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/xdsrules"
)

// xdsFile is where the data folder has the last good rules of a control plane.
const xdsFile = "xds.pb"

// mostXDS bounds a message of the control plane, in bytes.
const mostXDS = 64 << 20

// xdsConfig is how the control plane is asked.
type xdsConfig struct {
	node              string
	metadata, headers map[string]string
	tls               bool
	cert, key         string
	ca, name          string

	credentials credentials.TransportCredentials
}

// read reads the files.
func (c *xdsConfig) read() error {
	if !c.tls {
		if c.cert != "" || c.key != "" || c.ca != "" || c.name != "" {
			return errors.New("-xds-tls-cert, -key, -ca and -name need -xds-tls")
		}
		c.credentials = insecure.NewCredentials()
		return nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.name}
	if c.cert != "" || c.key != "" {
		own, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return fmt.Errorf("-xds-tls-cert %q, -xds-tls-key %q: %w", c.cert, c.key, err)
		}
		t.Certificates = []tls.Certificate{own}
	}
	if c.ca != "" {
		authorities, err := readAuthorities([]string{c.ca})
		if err != nil {
			return fmt.Errorf("-xds-tls-ca %q: %w", c.ca, err)
		}
		t.RootCAs = authorities
	}
	c.credentials = credentials.NewTLS(t)
	return nil
}

// openXDS returns the rules of the control plane.
func (s *service) openXDS() (rules.Source, error) {
	c := s.config.xds
	conn, err := grpc.NewClient(s.config.rulesName,
		grpc.WithTransportCredentials(c.credentials),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostXDS)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 5 * time.Minute, Timeout: 20 * time.Second, // more often servers refuse by default
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, conn *grpc.ClientConn,
			method string, open grpc.Streamer, options ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			for name, value := range c.headers {
				ctx = metadata.AppendToOutgoingContext(ctx, name, value)
			}
			return open(ctx, d, conn, method, options...)
		}))
	if err != nil {
		return nil, fmt.Errorf("-rules xds:%s: %w", s.config.rulesName, err)
	}
	source, err := xdsrules.New(conn, xdsrules.Config{
		Node: c.node, Metadata: c.metadata, File: filepath.Join(s.config.data, xdsFile), Log: s.log,
	})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	s.closers = append(s.closers, conn.Close, source.Close)
	return source, nil
}
