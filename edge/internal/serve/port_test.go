package serve

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/backends"
	"portolan.dev/services/balancer"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"

	"portolan.dev/edge/internal/health"
	"portolan.dev/edge/internal/listen"
	"portolan.dev/edge/internal/plan"
)

// fakeHandler is a handler with one connection, which lasts until the drain ends, or until the test ends it.
type fakeHandler struct {
	ended      chan struct{} // closed by the test
	cut, drain bool          // whether the drain has ended the connection, and whether a drain has begun
}

func (h *fakeHandler) handle(*listen.Conn)    {}
func (h *fakeHandler) update(*plan.Port)      {}
func (h *fakeHandler) removed(netip.AddrPort) {}

func (h *fakeHandler) shutdown(ctx context.Context) {
	h.drain = true
	select {
	case <-ctx.Done():
		h.cut = true
	case <-h.ended:
	}
}

// TestAClosedPortDrainsBothLayers closes a port with a connection of the layer that it had before. The port
// must stay until that connection has ended, or is ended at the limit. Otherwise the edge would no longer ask the
// agent for the address, and would close the access log, while the connection is still served.
func TestAClosedPortDrainsBothLayers(t *testing.T) {
	for name, ends := range map[string]bool{"the connection ends": true, "the limit ends it": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const limit = time.Minute
				reg := prometheus.NewRegistry()
				s := New(Options{Checks: health.NewChecker(kittest.Logger(t), reg), Metrics: reg, Log: kittest.Logger(t)})
				defer s.end()
				former, present := &fakeHandler{ended: make(chan struct{})}, &fakeHandler{ended: make(chan struct{})}
				close(present.ended) // it has no connection
				p := &port{server: s, handlers: [layers]handler{layerStream: former, layerWeb: present}}
				planned := plan.Port{
					Frontend: netip.MustParseAddrPort("192.0.2.1:80"), Service: object.Name{Namespace: "default", Name: "web"}, Settings: &balancer.Settings{},
				}
				made := newPort(s, planned)
				p.plan, p.pool, p.group, p.ejector = planned, made.pool, made.group, made.ejector

				drains := func() bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					_, found := s.draining[p]
					return found
				}
				s.mu.Lock()
				s.drop(planned.Frontend, p, limit)
				s.mu.Unlock()
				time.Sleep(limit / 2)
				synctest.Wait()
				if waits := drains(); !waits || !former.drain {
					t.Errorf("the port drains: %v; its former handler: %v", waits, former.drain)
				}
				if ends {
					close(former.ended)
				} else {
					time.Sleep(limit)
				}
				synctest.Wait()
				if waits := drains(); waits || former.cut == ends || !present.drain {
					t.Errorf("the port still drains: %v; the connection was cut: %v; the present handler drained: %v", waits, former.cut, present.drain)
				}
			})
		})
	}
}

// TestFailedDialsAndTheLogAreInTheStatus lets dials of a backend fail, and lets the access log fail. The backend must be
// ejected, so that no client waits for it, and the status must show both with the reason.
func TestFailedDialsAndTheLogAreInTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		s := New(Options{Checks: health.NewChecker(kittest.Logger(t), reg), Metrics: reg, Log: kittest.Logger(t)})
		defer s.end()
		good, bad := netip.MustParseAddrPort("198.51.100.1:80"), netip.MustParseAddrPort("198.51.100.2:80")
		p := newPort(s, plan.Port{
			Frontend: netip.MustParseAddrPort("192.0.2.1:80"), Service: object.Name{Namespace: "default", Name: "web"}, Settings: &balancer.Settings{},
			Server: backends.Server{Backends: []backends.Real{{Addr: good, Weight: 1}, {Addr: bad, Weight: 1}}},
		})
		defer p.ejector.Close()
		p.logProblem = "the folder is full"
		dialer := p.dialer()
		for range health.DefaultEjection.Failures {
			dialer.Failed(bad, errors.New("connection refused"))
		}
		status := p.status()
		if problems := status.GetProblems(); len(problems) != 1 || problems[0] != p.logProblem {
			t.Errorf("the problems are %q", problems)
		}
		for _, b := range status.GetBackends() {
			if ejected := !b.GetUsable() && b.GetReason() != ""; ejected != (b.GetAddress() == bad.String()) {
				t.Errorf("the backend %s is usable: %v, %q", b.GetAddress(), b.GetUsable(), b.GetReason())
			}
		}
	})
}

// TestEachFieldOfAPlanReachesALivePort changes each field of a plan. Either the listener gets new settings, or the
// comment of the field below says why it needs none.
func TestEachFieldOfAPlanReachesALivePort(t *testing.T) {
	needless := map[string]string{
		"Frontend": "another frontend is another port",
		"Service":  "the port of another service is another port",
		"UID":      "as Service",
		"Name":     "for people only; TLS and Certificates follow from it",
		"Server":   "the pool gets it with every plan",
	}
	full := plan.Port{
		Settings: &balancer.Settings{}, TLS: true, Certificates: []balancer.CertificateRef{{Name: "web"}},
		Restricted: true, Allowed: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
	}
	for field := range reflect.TypeFor[plan.Port]().Fields() {
		var changed plan.Port
		reflect.ValueOf(&changed).Elem().FieldByIndex(field.Index).Set(reflect.ValueOf(full).FieldByIndex(field.Index))
		if reaches := !sameAdmission(&plan.Port{}, &changed); reaches == (needless[field.Name] != "") {
			t.Errorf("%s: the listener gets new settings: %v; a reason why not: %q", field.Name, reaches, needless[field.Name])
		}
	}
}
