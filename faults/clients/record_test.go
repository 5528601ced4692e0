package clients

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"portolan.dev/faults/history"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/kittest"
)

// TestRecordLog checks that lines keep the time at which they were printed.
func TestRecordLog(t *testing.T) {
	recorder := history.NewRecorder()
	began := time.Now()
	text := `{"time":"2026-01-01T00:00:01Z","msg":"hello"}` + "\npanic: no\n"
	if err := RecordLog(recorder, "d", strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	lines := recorder.History().LogLines
	if len(lines) != 2 || lines[0].At.Unix() != 1767225601 || lines[1].At.Before(began) || lines[1].Text != "panic: no" {
		t.Errorf("recorded %v", lines)
	}
	if err := RecordLog(recorder, "d", strings.NewReader(strings.Repeat("x", maxLineLength+1))); err == nil {
		t.Error("no error for a line that is too long")
	}
}

// listen opens a listener in the network namespace of the tests. It sets up the loopback device,
// which is down at first.
func listen(t *testing.T) net.Listener {
	t.Helper()
	labtest.Need(t)
	labtest.NewNetwork(t)
	return kittest.Listen(t)
}

// closableDialer dials connections that a test can close without the client's knowledge.
type closableDialer struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (b *closableDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := direct(ctx, network, address)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns = append(b.conns, conn)
	return conn, err
}

func (b *closableDialer) closeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conn := range b.conns {
		_ = conn.Close()
	}
}

// TestPersistentClientRecordsLoss checks that a connection that breaks is recorded as lost, and a
// connection that the client closes is not.
func TestPersistentClientRecordsLoss(t *testing.T) {
	lis := listen(t)
	go labtest.Echo(lis)
	at := netip.MustParseAddrPort(lis.Addr().String())
	recorder, dialer := history.NewRecorder(), &closableDialer{}
	client := &persistentClient{name: "k", target: at, dial: dialer.dial, recorder: recorder, interval: time.Millisecond, answerTimeout: time.Minute}
	stop := kittest.Run(t, "keeper", func(ctx context.Context) error {
		client.run(ctx)
		return nil
	})
	waitForUse := func(n int) {
		t.Helper()
		kittest.Eventually(t, "a connection is used", func() error {
			all := recorder.History().Connections
			if len(all) < n || !all[n-1].LastAnswer.After(all[n-1].Began) || all[n-1].Backend != at {
				return errors.New("it is not used")
			}
			return nil
		})
	}
	waitForUse(1)
	dialer.closeAll()
	waitForUse(2)
	stop()
	all := recorder.History().Connections
	if all[0].Lost.IsZero() || all[0].Error == "" {
		t.Errorf("the connection that broke is recorded as %+v", all[0])
	}
	if last := all[len(all)-1]; !last.Lost.IsZero() {
		t.Errorf("the connection that was closed is recorded as %+v", last)
	}
}

// TestProberRecordsBackend checks that a probe has the backend, or an error if there is none.
func TestProberRecordsBackend(t *testing.T) {
	lis := listen(t)
	go labtest.Echo(lis)
	at := netip.MustParseAddrPort(lis.Addr().String())
	p := &prober{target: at, dial: direct, timeout: time.Minute}
	if a := p.probe(t.Context()); a.Error != "" || a.Backend != at {
		t.Errorf("the probe is recorded as %+v", a)
	}
	_ = lis.Close()
	if a := p.probe(t.Context()); a.Error == "" || a.Backend.IsValid() {
		t.Errorf("the probe without a backend is recorded as %+v", a)
	}
}
