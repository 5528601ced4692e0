package systemd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/registrar/source"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/obs"
)

const (
	// name is the name of the source.
	name = "systemd"
	// defaultAddress is the address of the system bus.
	defaultAddress = "unix:path=/run/dbus/system_bus_socket"
	// settle is the time between the first signal and the reading of the units. A start or a stop of a unit
	// sends about ten signals within a few milliseconds.
	settle = 10 * time.Millisecond
	// The pause between attempts to connect doubles from firstPause to lastPause.
	firstPause = 100 * time.Millisecond
	lastPause  = 15 * time.Second
)

// Options are the options of a Source. All fields except Address are required.
type Options struct {
	// Address is the D-Bus address of the system bus of this node, a unix socket. Empty:
	// unix:path=/run/dbus/system_bus_socket.
	Address string
	// Root is the folder that has the node's unit files at their usual paths. It differs from / for a
	// registrar in a container with the node's files mounted there. Symbolic links with absolute paths lead
	// out of it.
	Root string
	// Relist is the interval at which all units are read again.
	Relist  time.Duration
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Source is the source of the units of this node's systemd. It implements source.Source.
type Source struct {
	options Options
	timeout time.Duration // of a call
	calls   *prometheus.CounterVec
}

// New returns a source. It connects to systemd in Run.
func New(options Options) *Source {
	options.Address = cmp.Or(options.Address, defaultAddress)
	return &Source{options: options, timeout: defaultTimeout, calls: newCalls(options.Metrics)}
}

// Name returns "systemd".
func (s *Source) Name() string { return name }

// Run reports the units until ctx is done, see source.Source. It returns an error if the address of the bus is
// not a unix socket.
func (s *Source) Run(ctx context.Context, report func(source.Report)) error {
	if !strings.HasPrefix(s.options.Address, "unix:") {
		return fmt.Errorf("systemd: bus address %q: want the address of a unix socket, such as %s", s.options.Address, defaultAddress)
	}
	outage := &obs.Outage{Log: s.options.Log, Down: "systemd does not answer; its units stay registered as they are", Up: "systemd answers again"}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := s.follow(ctx, func(r source.Report) {
			outage.Over()
			pause = firstPause
			report(r)
		})
		if ctx.Err() != nil {
			return nil
		}
		outage.Failed(err)
		report(source.Report{Err: err})
		app.Pause(ctx, pause)
	}
}

// follow connects to the bus and reports until the connection ends. It returns the reason.
func (s *Source) follow(ctx context.Context, report func(source.Report)) error {
	hints := newHints()
	b, err := s.connect(ctx, hints)
	if err != nil {
		return err
	}
	defer b.close()
	relist := time.NewTicker(s.options.Relist)
	defer relist.Stop()
	units := newUnits(b, s.options.Root)
	hints.addAll()
	var last *source.Report
	for {
		select {
		case <-b.ended():
			return errEnded
		case <-relist.C:
			hints.addAll()
			continue
		case <-hints.wake:
		}
		app.Pause(ctx, settle)
		if err := units.read(ctx, hints.take()); err != nil {
			return err
		}
		if next := units.report(); last == nil || !reflect.DeepEqual(*last, next) {
			report(next)
			last = &next
		}
	}
}
