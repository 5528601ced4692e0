package systemd_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/registrar/internal/systemd"
	"portolan.dev/registrar/source"
	"portolan.dev/services/kit/kittest"
)

func TestAddressOfTheBus(t *testing.T) {
	err := systemd.New(systemd.Options{Address: "/run/dbus/system_bus_socket", Metrics: prometheus.NewRegistry()}).Run(context.Background(), func(source.Report) { t.Error("a report") })
	if err == nil || !strings.Contains(err.Error(), "want the address of a unix socket, such as unix:path=") {
		t.Error(err)
	}
}

// firstError returns the error of the first report of a source that connects to an address.
func firstError(t *testing.T, address string) error {
	t.Helper()
	s := systemd.New(systemd.Options{Address: address, Relist: time.Hour, Log: kittest.Logger(t), Metrics: prometheus.NewRegistry()})
	s.SetTimeout(50 * time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())
	reports, ended := make(chan source.Report, 100), make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, func(r source.Report) {
			select {
			case reports <- r:
			default:
			}
		})
	}()
	r := kittest.Receive(t, "a report", reports)
	cancel()
	if err := kittest.Receive(t, "the end of the source", ended); err != nil {
		t.Error(err)
	}
	if len(r.Workloads)+len(r.Problems) > 0 {
		t.Errorf("a report without a bus: %+v", r)
	}
	return r.Err
}

func TestNoBus(t *testing.T) {
	if err := firstError(t, "unix:path="+filepath.Join(t.TempDir(), "bus")); err == nil || !strings.Contains(err.Error(), "connect to the bus at unix:path=") {
		t.Error(err)
	}
}

// TestSilentBus connects to a socket without a server.
func TestSilentBus(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := firstError(t, "unix:path="+path); err == nil || !strings.Contains(err.Error(), "the bus does not answer") {
		t.Error(err)
	}
}
