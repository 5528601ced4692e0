package syncloop

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// TestAnAddressChangesHandsWithinABatch checks that one batch can delete a service and give its
// address to another one, with a name that sorts before or after it.
func TestAnAddressChangesHandsWithinABatch(t *testing.T) {
	for _, tc := range []struct{ from, to string }{{"a", "z"}, {"z", "a"}} {
		t.Run(tc.from+" to "+tc.to, func(t *testing.T) {
			b := newUserspaceBench(t)
			at, lis := freeAt(t, "127.101.7.3"), kittest.Listen(t)
			old, now := webService(tc.from, 1, at), webService(tc.to, 2, at)
			oldSlice, newSlice := sliceOf(tc.from, lis.Addr().(*net.TCPAddr).AddrPort()), sliceOf(tc.to, lis.Addr().(*net.TCPAddr).AddrPort())
			b.change(old, oldSlice)
			b.sync(t.Context())
			b.replace([]object.Object{old, oldSlice}, now, newSlice)
			b.sync(t.Context())
			key := plan.Key{Frontend: plan.Frontend{Addr: at, Protocol: plan.TCP}}
			if v := b.plane.Programmed(key); v == nil || v.Service.Name != tc.to || len(v.Reals) != 1 {
				t.Errorf("in force: %v, planned: %v", v, b.table.Server(key))
			}
			conn, err := net.Dial("tcp", at.String())
			if err != nil {
				t.Fatalf("the address is refused: %v", err)
			}
			conn.Close()
			if got := b.problems(); len(got) > 0 {
				t.Errorf("events %q", got)
			}
		})
	}
}

// held is a data plane with an Apply that blocks until the test continues it.
type held struct {
	dataplane.Plane
	began, goOn chan struct{}
}

func (p *held) Apply(ctx context.Context, changed plan.Changes) []dataplane.Failure {
	p.began <- struct{}{}
	<-p.goOn
	return p.Plane.Apply(ctx, changed)
}

// TestAServiceDeletedBeforeHoldsNoAddress checks that a service gets the address of a deleted one
// while a batch with it is being programmed. No other service has the address then.
func TestAServiceDeletedBeforeHoldsNoAddress(t *testing.T) {
	b := newUserspaceBench(t)
	shared, other, urgentAt := freeAt(t, "127.101.7.4"), freeAt(t, "127.101.7.5"), freeAt(t, "127.101.7.6")
	older := webService("older", 1, shared)
	b.change(older)
	b.sync(t.Context())

	first := webService("first", 2, urgentAt) // makes the batch have two parts
	first.Metadata.Annotations = map[string]string{urgentAnnotation: "true"}
	b.change(first, webService("newer", 3, other))
	plane := &held{Plane: b.plane, began: make(chan struct{}), goOn: make(chan struct{})}
	b.plane = plane
	var done sync.WaitGroup
	done.Go(func() { b.sync(t.Context()) })
	<-plane.began
	b.replace([]object.Object{older}, webService("newer", 3, shared))
	close(plane.goOn)
	<-plane.began
	done.Wait()
	b.plane = plane.Plane
	b.sync(t.Context())
	if got := b.problems(); len(got) > 0 {
		t.Errorf("events %q", got)
	}
	if owner := b.table.Owner(plan.Frontend{Addr: shared, Protocol: plan.TCP}); owner.Name != "newer" {
		t.Errorf("the address is %s's", owner)
	}
}

// TestLabelsLeaveAServiceToAnotherProxy sets the label on a live service, or on a slice, and
// removes it again.
func TestLabelsLeaveAServiceToAnotherProxy(t *testing.T) {
	for _, label := range []string{"service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless"} {
		t.Run(label, func(t *testing.T) {
			b := newUserspaceBench(t)
			at, lis := freeAt(t, "127.101.7.7"), kittest.Listen(t)
			backend := lis.Addr().(*net.TCPAddr).AddrPort()
			reachable := func(when string, want bool) {
				t.Helper()
				b.sync(t.Context())
				conn, err := net.Dial("tcp", at.String())
				if err == nil {
					conn.Close()
				}
				if (err == nil) != want {
					t.Errorf("%s: %v", when, err)
				}
			}
			b.change(webService("web", 1, at), sliceOf("web", backend))
			reachable("without the label", true)
			labelled := webService("web", 1, at)
			labelled.Metadata.Labels = map[string]string{label: ""}
			b.change(labelled)
			reachable("with the label on the service", false)
			if len(b.table.Planned(object.Name{Namespace: "default", Name: "web"})) != 0 {
				t.Error("there still is a plan")
			}
			b.change(webService("web", 1, at))
			reachable("after the label was removed", true)
			slice := sliceOf("web", backend)
			slice.Metadata.Labels[label] = "other"
			b.change(slice)
			reachable("with the label on the slice", false)
			b.change(sliceOf("web", backend))
			reachable("after it was removed there", true)
			if got := b.problems(); len(got) > 0 {
				t.Errorf("events %q", got)
			}
		})
	}
}

// forgetful is a data plane that reports success and does nothing.
type forgetful struct{ dataplane.Plane }

func (forgetful) Apply(context.Context, plan.Changes) []dataplane.Failure { return nil }

// TestWhatIsNotOnThePlanesRecordIsNotApplied checks that a change that a plane accepts but does not record is a
// failure of the service, and is tried again.
func TestWhatIsNotOnThePlanesRecordIsNotApplied(t *testing.T) {
	b := newUserspaceBench(t)
	plane := b.plane
	b.plane = forgetful{plane}
	at := freeAt(t, "127.101.7.9")
	b.change(webService("web", 1, at), sliceOf("web", at))
	b.sync(t.Context())
	if p := b.progress(); p.failures != 1 || !slices.Equal(p.services, []string{"default/web"}) {
		t.Errorf("progress %+v", p)
	}
	if got := b.problems(); len(got) != 1 || !strings.Contains(got[0], dataplane.ErrNotInForce.Error()) {
		t.Errorf("events %q", got)
	}
	b.plane = plane
	for _, f := range b.failing {
		f.next = time.Now()
	}
	b.retry(t.Context())
	if p := b.progress(); p.failures != 0 || len(p.services) != 0 {
		t.Errorf("progress %+v after the plane did it", p)
	}
}

// TestADeletedServiceIsForgottenThoughItFailed checks that a service with a port in use by another
// program can be deleted, and that the plane does not listen once the port is free.
func TestADeletedServiceIsForgottenThoughItFailed(t *testing.T) {
	b := newUserspaceBench(t)
	foreign, err := net.Listen("tcp", "127.101.7.10:0")
	if err != nil {
		t.Fatal(err)
	}
	at, lis := foreign.Addr().(*net.TCPAddr).AddrPort(), kittest.Listen(t)
	svc, slice := webService("web", 1, at), sliceOf("web", lis.Addr().(*net.TCPAddr).AddrPort())
	b.change(svc, slice)
	b.sync(t.Context())
	if p := b.progress(); p.failures != 1 {
		t.Errorf("progress %+v while the port is taken", p)
	}
	b.replace([]object.Object{svc, slice})
	b.sync(t.Context())
	foreign.Close()
	if _, err := b.Audit(t.Context()); err != nil {
		t.Error(err)
	}
	if p := b.progress(); p.failures != 0 {
		t.Errorf("progress %+v after the service was deleted", p)
	}
	if conn, err := net.Dial("tcp", at.String()); err == nil {
		conn.Close()
		t.Error("a deleted service is answered")
	}
}
