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

// TestRecordLog protects that lines keep the time at which they were printed.
func TestRecordLog(t *testing.T) {
	recorder := history.NewRecorder()
	began := time.Now()
	text := `{"time":"2026-01-01T00:00:01Z","msg":"hello"}` + "\npanic: no\n"
	if err := RecordLog(recorder, "d", strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	lines := recorder.History().LogLines
	if len(lines) != 2 || lines[0].At.Unix() != 1767225601 || lines[1].At.Before(began) || lines[1].Text != "panic: no" {
		t.Errorf("recorded are %v", lines)
	}
	if err := RecordLog(recorder, "d", strings.NewReader(strings.Repeat("x", maxLineLength+1))); err == nil {
		t.Error("a line without end is no error")
	}
}

// listen opens a listener in the network namespace of the tests. Its loopback device is not up by
// itself.
func listen(t *testing.T) net.Listener {
	t.Helper()
	labtest.Need(t)
	labtest.NewNetwork(t)
	return kittest.Listen(t)
}

// breakable dials connections that a test can close behind the client's back.
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

// TestKeeperNoticesALoss protects that a connection that breaks is recorded as lost, and that one
// which the client closes is not.
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
				return errors.New("it is not")
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

// TestProberTellsTheBackend protects that an attempt names the backend, or why there was none.
func TestProberRecordsBackend(t *testing.T) {
	lis := listen(t)
	go labtest.Echo(lis)
	at := netip.MustParseAddrPort(lis.Addr().String())
	p := &prober{target: at, dial: direct, timeout: time.Minute}
	if a := p.probe(t.Context()); a.Error != "" || a.Backend != at {
		t.Errorf("the attempt is recorded as %+v", a)
	}
	_ = lis.Close()
	if a := p.probe(t.Context()); a.Error == "" || a.Backend.IsValid() {
		t.Errorf("the attempt without a backend is recorded as %+v", a)
	}
}
