package userspace

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"portolan.dev/services/backends"
	"portolan.dev/services/kit/app"
)

// accept accepts connections until the socket is closed.
func (f *frontend) accept(lis *net.TCPListener) {
	backoff := 5 * time.Millisecond
	for {
		conn, err := lis.AcceptTCP()
		switch {
		case err == nil:
			backoff = 5 * time.Millisecond
			f.plane.running.Go(func() { f.serve(conn) })
		case errors.Is(err, net.ErrClosed):
			return
		default: // mostly out of file descriptors: wait until connections have ended
			f.plane.opts.Log.Warn("accept", "frontend", f.key.String(), "err", err)
			if !app.Pause(f.plane.ctx, backoff) {
				return
			}
			backoff = min(2*backoff, time.Second)
		}
	}
}

// serve proxies one connection.
func (f *frontend) serve(client *net.TCPConn) {
	from, to := addrOf(client.RemoteAddr()), addrOf(client.LocalAddr())
	c := backends.NewConnection(client)
	p := f.poolFor(from.Addr())
	if p == nil {
		f.plane.metrics.connections.WithLabelValues("denied").Inc()
		c.Abort()
		return
	}
	b := f.plane.dialer.Connect(f.plane.ctx, &backends.Target{Pool: p, Client: from, Local: to}, c)
	if b == nil {
		f.plane.metrics.connections.WithLabelValues("no_backend").Inc()
		c.Abort()
		return
	}
	f.plane.metrics.connections.WithLabelValues("served").Inc()
	f.plane.metrics.active.Inc()
	f.plane.running.Add(1)
	c.Copy(client, c.Server(), func() {
		f.plane.metrics.active.Dec()
		p.Release(b, c, from.Addr())
		f.plane.running.Done()
	})
}

func addrOf(a net.Addr) netip.AddrPort {
	var ap netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		ap = a.AddrPort()
	case *net.UDPAddr:
		ap = a.AddrPort()
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
