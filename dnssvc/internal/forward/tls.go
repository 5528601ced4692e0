package forward

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"

	"github.com/miekg/dns"
)

// maxIdle bounds the idle connections of one server that are kept for later questions, because a
// handshake takes several times as long as a question.
const maxIdle = 8

// exchangeTLS asks over an idle connection of an earlier question, or over a new one. If the server
// has closed the idle connection, that does not count as its failure.
func (u *upstream) exchangeTLS(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
	client := &dns.Client{Net: "tcp-tls", Timeout: u.timeout, TLSConfig: &tls.Config{
		ServerName: cmp.Or(u.server.Name, u.server.Addr.Addr().WithZone("").String()), RootCAs: u.roots, MinVersion: tls.VersionTLS12,
	}}
	select {
	case conn := <-u.idle:
		if reply, err := u.exchangeOver(ctx, client, conn, m); err == nil {
			return reply, nil
		}
	default:
	}
	conn, err := client.DialContext(ctx, u.server.Addr.String())
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", u.server, err)
	}
	return u.exchangeOver(ctx, client, conn, m)
}

func (u *upstream) exchangeOver(ctx context.Context, client *dns.Client, conn *dns.Conn, m *dns.Msg) (*dns.Msg, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	reply, _, err := client.ExchangeWithConnContext(ctx, m, conn)
	stop()
	if err == nil {
		err = u.checkReply(m, reply)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("ask %s: %w", u.server, err)
	}
	select {
	case u.idle <- conn:
	default:
		conn.Close()
	}
	return reply, nil
}

// closeIdle closes the idle connections.
func (u *upstream) closeIdle() {
	for {
		select {
		case conn := <-u.idle:
			conn.Close()
		default:
			return
		}
	}
}
