package grpclimit

import (
	"context"
	"net"
	"net/netip"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// A Call is what a Limit is asked about.
type Call struct {
	// Context is that of the call.
	Context context.Context

	// Method is the full name of the method: /package.Service/Method.
	Method string

	// Message is the request of a unary call, or the message of a stream. It is nil for the
	// opening of a stream. It must not be changed or kept.
	Message any

	client bool
}

// Metadata returns the values of a key of the metadata that the client sends, or nil. Clients
// choose them: believe those only that a proxy or an interceptor of yours has checked.
func (c Call) Metadata(key string) []string {
	if !c.client {
		return metadata.ValueFromIncomingContext(c.Context, key)
	}
	md, _ := metadata.FromOutgoingContext(c.Context)
	return md.Get(key)
}

// Peer returns the address at the other end of a server's connection: that of the client or of
// the last proxy. It is the zero Addr if that is no IP address, as of a Unix socket, and at a
// client.
func (c Call) Peer() netip.Addr {
	p, ok := peer.FromContext(c.Context)
	if !ok || c.client || p.Addr == nil {
		return netip.Addr{}
	}
	if tcp, ok := p.Addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	at, _ := netip.ParseAddrPort(p.Addr.String())
	return at.Addr().Unmap()
}

// Network returns Peer as a key: an IPv4 address, or the /64 of an IPv6 address, as a client
// owns all addresses of it. It is "" where Peer is the zero Addr.
func (c Call) Network() string {
	at := c.Peer()
	if !at.Is6() {
		if !at.IsValid() {
			return ""
		}
		return at.String()
	}
	network, _ := at.Prefix(64) // without its zone
	return network.String()
}
