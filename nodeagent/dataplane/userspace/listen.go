package userspace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// listen opens the frontend's socket and starts to serve it. An address that was made local needs no device.
func (f *frontend) listen() (socket, error) {
	var lc net.ListenConfig
	if f.local {
		lc.Control = freeBind
	}
	if f.key.Protocol == plan.UDP {
		return f.listenUDP(&lc)
	}
	lis, err := lc.Listen(context.Background(), network("tcp", f.key.Addr), f.key.Addr.String())
	if err != nil {
		return nil, fmt.Errorf("listen %s: %w", f.key, causeOf(err))
	}
	f.plane.running.Go(func() { f.accept(lis.(*net.TCPListener)) })
	return lis, nil
}

// network returns the network name for one family only, so that an IPv6 socket does not accept
// IPv4.
func network(base string, addr netip.AddrPort) string {
	if addr.Addr().Is4() {
		return base + "4"
	}
	return base + "6"
}

// causeOf returns the cause of an error of package net without the address, which the caller adds.
func causeOf(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// remedy returns the advice for operators about a socket that cannot be opened.
func remedy(f plan.Frontend, err error) string {
	port := f.Addr.Port()
	if of, ok := errors.AsType[*dataplane.NodeError](err); ok {
		return of.Remedy
	}
	if of, ok := errors.AsType[*NotLocalError](err); ok {
		return of.Remedy
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Sprintf("another program has port %d (see: ss -lnp 'sport = :%d'): stop it, or bind it to one address instead of all", port, port)
	case errors.Is(err, syscall.EACCES):
		return fmt.Sprintf("ports below net.ipv4.ip_unprivileged_port_start need a privilege: "+
			"sysctl net.ipv4.ip_unprivileged_port_start=%d, or setcap cap_net_bind_service+ep on the agent, or use a higher port", port)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Sprintf("%s is no address of this machine: ip addr add %s dev lo", f.Addr.Addr(), f.Addr.Addr())
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "too many open files: raise the limit (ulimit -n, or LimitNOFILE= of the unit)"
	}
	return ""
}
