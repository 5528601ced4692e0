package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
)

// Limits of answers, in bytes.
const (
	maxHeader = 64 << 10
	maxBody   = 10 << 10 // a longer body is not read to its end
	maxReason = 1 << 10  // of a failed check
)

// userAgent is the name by which checks introduce themselves.
const userAgent = "portolan-probe/1"

// Check makes one attempt. It returns an error if the attempt fails, or if ctx is done before it
// succeeds. The text of the error is at most 1 KiB long.
type Check func(ctx context.Context) error

// shortened returns the check with errors of at most maxReason bytes. Errors may contain parts of the
// answer, such as its status line, of any length.
func (check Check) shortened() Check {
	return func(ctx context.Context) error {
		err := check(ctx)
		if err == nil || len(err.Error()) <= maxReason {
			return err
		}
		return errors.New(strings.ToValidUTF8(err.Error()[:maxReason], ""))
	}
}

// TCP returns a check that succeeds if the address (host:port) accepts a connection.
func TCP(addr string) Check {
	return func(ctx context.Context) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// TLS returns a check that succeeds if the program at the address (host:port) completes a handshake.
func TLS(addr string) Check {
	return Check(func(ctx context.Context) error {
		d := tls.Dialer{Config: unverified}
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	}).shortened()
}

// unverified is the TLS configuration of all checks.
var unverified = &tls.Config{InsecureSkipVerify: true} // #nosec G402 -- the contract: certificates of probes are not verified
