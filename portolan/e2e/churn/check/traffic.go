package check

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/object"
)

// tries is the number of connections that Traffic makes to each frontend.
const tries = 2

// answerTimeout bounds the wait for an answer. No packet is lost between namespaces.
const answerTimeout = 5 * time.Second

// Traffic checks by connections that one of its backends answers at each frontend of a node, or
// that the frontend refuses connections if it has none. A backend sends its address to each client.
type Traffic struct{ Node Node }

// Name implements Checker.
func (c Traffic) Name() string { return "traffic on " + c.Node.Name }

// Check implements Checker.
func (c Traffic) Check(_ context.Context, want *model.World) ([]Finding, error) {
	var findings []Finding
	err := c.Node.Inside(func() error {
		for _, f := range want.Frontends(c.Node.Addresses) {
			if f.Protocol != corev1.Protocol_PROTOCOL_TCP {
				continue
			}
			for try := range tries {
				if err := connect(f); err != nil {
					problem := fmt.Sprintf("%s: connection %d: %v; %s", f, try+1, err, connectAgain(f))
					findings = append(findings, Finding{Check: c.Name(), Object: object.KeyOf(f.Service), Problem: problem, Final: true})
				}
			}
		}
		return nil
	})
	return findings, err
}

// connectAgain makes more connections after one that failed, and returns how many of them fail. The
// number shows whether the fault is one of a single flow, of one backend, or of the whole frontend.
func connectAgain(f model.Frontend) string {
	const more = 30
	failed := 0
	for range more {
		if connect(f) != nil {
			failed++
		}
	}
	return fmt.Sprintf("%d of %d further connections fail", failed, more)
}

// connect returns an error if a connection does not behave as expected.
func connect(f model.Frontend) error {
	conn, err := net.DialTimeout("tcp", f.Address.String(), answerTimeout)
	if len(f.Backends) == 0 {
		if err == nil {
			err = refusedLater(conn)
		}
		if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errClosed) {
			return nil
		}
		return fmt.Errorf("want a refusal, got %w", cmpErr(err))
	}
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if backend := strings.TrimSpace(answer); !slices.Contains(f.Backends, backend) {
		return fmt.Errorf("%s answered", backend)
	}
	return nil
}

// errClosed is the refusal of a data plane that accepts a connection before it looks for a backend.
var errClosed = errors.New("the connection was closed at once")

func refusedLater(conn net.Conn) error {
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	if n, err := conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, syscall.EAGAIN) {
		return errors.New("an answer")
	}
	return errClosed
}

func cmpErr(err error) error {
	if err == nil {
		return errors.New("a connection")
	}
	return err
}
