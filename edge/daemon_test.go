package edge_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	edgev1 "portolan.dev/api/edge/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// wantReached waits until a new connection reaches a backend.
func wantReached(t *testing.T, frontend netip.AddrPort, want string) {
	t.Helper()
	kittest.Eventually(t, "a connection to "+want, func() error {
		if got := backendName(t, frontend); got != want {
			return errors.New(got)
		}
		return nil
	})
}

// TestTwoServicesOfOnePort checks that the older service has the port, and the other service gets it afterwards.
func TestTwoServicesOfOnePort(t *testing.T) {
	w := newWorld(t)
	w.start()
	frontend := freePort(t, balancerIP)
	young := w.object("young", frontend, nil)
	young.Metadata.CreationTimestamp = timestamppb.New(time.Unix(2, 0))
	w.log.Put(young, slice("young", backend(t, greet("young"))))
	wantReached(t, frontend, "young")
	old := w.object("old", frontend, nil)
	w.log.Put(old, slice("old", backend(t, greet("old"))))
	wantReached(t, frontend, "old")
	w.wantEvent("young", "AddressInUse", "default/old")
	w.log.Delete(object.KeyOf(old))
	wantReached(t, frontend, "young")
}

// TestRanges checks that the edge listens only in its ranges.
func TestRanges(t *testing.T) {
	w := newWorld(t)
	w.cfg.Ranges = []netip.Prefix{netip.MustParsePrefix("127.77.3.0/24")}
	w.start()
	inside, outside := freePort(t, "127.77.3.1"), freePort(t, balancerIP)
	w.log.Put(w.object("outside", outside, nil), slice("outside", backend(t, greet("outside"))))
	w.log.Put(w.object("inside", inside, nil), slice("inside", backend(t, greet("inside"))))
	wantReached(t, inside, "inside")
	w.wantEvent("outside", "FailedToListen", "-ranges")
	if p, err := w.port(outside); err == nil || !strings.Contains(p.GetError(), "-ranges") {
		t.Errorf("the port outside: %v, %v", p, err)
	}
}

// TestAPortIsTakenLater checks that a port that another program has is opened once it is free.
func TestAPortIsTakenLater(t *testing.T) {
	w := newWorld(t)
	w.start()
	frontend := freePort(t, balancerIP)
	lis := listenAt(t, frontend)
	w.log.Put(w.object("web", frontend, nil), slice("web", backend(t, greet("web"))))
	w.wantEvent("web", "FailedToListen", "another program has port")
	lis.Close()
	wantReached(t, frontend, "web")
}

// TestViewOnDisk checks that an edge that starts without its registry serves the view on its disk.
func TestViewOnDisk(t *testing.T) {
	w := newWorld(t)
	w.cfg.DataDir = t.TempDir()
	w.start()
	frontend := w.service("web", nil, backend(t, greet("web")))
	w.stop()
	w.cfg.Registry = kittest.Listen(t).Addr().String() // accepts connections and never answers
	w.start()
	wantReached(t, frontend, "web")
	status, err := w.api.GetStatus(t.Context(), &edgev1.GetStatusRequest{}, grpc.WaitForReady(true))
	if err != nil || status.GetSynced() || len(status.GetPorts()) != 1 {
		t.Errorf("status %v, %v", status, err)
	}
	if err := w.host.Health.Ready(); err == nil || !strings.Contains(err.Error(), "view on disk") {
		t.Errorf("ready: %v", err)
	}
}

// TestStopWaits checks that connections go on after the signal to stop, and new ones are not accepted.
func TestStopWaits(t *testing.T) {
	w := newWorld(t)
	w.cfg.StopTimeout = time.Minute
	w.start()
	frontend := w.service("web", nil, backend(t, greet("web")))
	c := dial(t, frontend)
	if line, err := c.line(); err != nil || line != "web" {
		t.Fatalf("%q, %v", line, err)
	}
	stopped := make(chan bool, 1)
	go func() {
		w.stop()
		stopped <- true
	}()
	kittest.Eventually(t, "no new connections", func() error {
		if got := backendName(t, frontend); got == "web" {
			return errors.New("there was one")
		}
		return nil
	})
	if !goesOn(c) {
		t.Error("the connection has ended")
	}
	select {
	case <-stopped:
		t.Error("the edge has stopped before its connections")
	default:
	}
	c.Close()
	kittest.Receive(t, "the edge to stop", stopped)
}

// TestLayerChanges checks that the port stays open when its layer changes, and that connections of the former layer
// continue.
func TestLayerChanges(t *testing.T) {
	w := newWorld(t)
	w.start()
	echo := backend(t, greet("web"))
	frontend := w.service("web", nil, echo)
	c := dial(t, frontend)
	if line, err := c.line(); err != nil || line != "web" {
		t.Fatalf("%q, %v", line, err)
	}
	server := startWeb(t, "page")
	w.log.Put(slice("web", echo)) // the connection's backend stays
	w.log.Put(w.object("web", frontend, annotations{"backend-protocol": "http", "check": "false"}))
	kittest.Eventually(t, "requests are read", func() error {
		if status, body := fetch(t, browser(nil), "http://"+frontend.String()); status != http.StatusBadGateway {
			return fmt.Errorf("status %d, %q", status, body) // the backend speaks no HTTP
		}
		return nil
	})
	if !goesOn(c) {
		t.Error("the connection of layer 4 has ended")
	}
	w.log.Put(slice("web", server.addr))
	kittest.Eventually(t, "a page", func() error {
		if status, body := fetch(t, browser(nil), "http://"+frontend.String()); status != http.StatusOK {
			return fmt.Errorf("status %d, %q", status, body)
		}
		return nil
	})
}

// TestADeletedServiceKeepsConnectionsOfBothLayers checks that a port counts its connections until the last one has
// ended, if the service is deleted after a change of its layer.
func TestADeletedServiceKeepsConnectionsOfBothLayers(t *testing.T) {
	w := newWorld(t)
	w.start()
	frontend := w.service("web", nil, backend(t, greet("web")))
	c := dial(t, frontend)
	if line, err := c.line(); err != nil || line != "web" {
		t.Fatalf("%q, %v", line, err)
	}
	svc := w.object("web", frontend, annotations{"backend-protocol": "http", "check": "false"})
	w.log.Put(svc)
	kittest.Eventually(t, "requests are read", func() error {
		if status, body := fetch(t, browser(nil), "http://"+frontend.String()); status != http.StatusBadGateway {
			return fmt.Errorf("status %d, %q", status, body) // the backend speaks no HTTP
		}
		return nil
	})
	w.log.Delete(object.KeyOf(svc))
	kittest.Eventually(t, "the end of the port", func() error {
		if _, err := w.port(frontend); err == nil {
			return errors.New("it is open")
		}
		return nil
	})
	for range 50 { // the port must not be forgotten soon after it was closed, either
		if !goesOn(c) {
			t.Fatal("the connection of layer 4 has ended")
		}
	}
	if got := w.metric("portolan_edge_connections"); got != 1 {
		t.Errorf("%g connections are counted, want 1", got)
	}
	c.Close()
	kittest.Eventually(t, "the end of the connection", func() error {
		if got := w.metric("portolan_edge_connections"); got != 0 {
			return fmt.Errorf("%g connections", got)
		}
		return nil
	})
}

// TestStatus checks the arguments of the API, and that a service has only its own ports.
func TestStatus(t *testing.T) {
	w := newWorld(t)
	w.inZone("a")
	w.start()
	w.service("one", nil, backend(t, greet("one")))
	w.service("two", annotations{"tls-cert": "file/none"}, backend(t, greet("two")))
	_, err := w.api.GetStatus(t.Context(), &edgev1.GetStatusRequest{Name: "one"})
	if apierr.Code(err) != codes.FailedPrecondition {
		t.Errorf("a name without a namespace: %v", err)
	}
	status, err := w.api.GetStatus(t.Context(), &edgev1.GetStatusRequest{Namespace: "default", Name: "two"})
	if err != nil {
		t.Fatal(err)
	}
	if len(status.GetPorts()) != 1 || status.GetZone() != "a" || status.GetNode() != "here" || status.GetStopping() {
		t.Fatalf("status %v", status)
	}
	if p := status.GetPorts()[0]; p.GetService() != "two" || !p.GetTls() || p.GetBackendProtocol() != "tcp" || len(p.GetProblems()) == 0 || len(p.GetBackends()) != 1 {
		t.Errorf("port %v", p)
	}
}
