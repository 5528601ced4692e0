package daemon_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/kittest"
)

func TestNATSConnectionIsNamedAndPrivate(t *testing.T) {
	srv, url := kittest.NATS(t)
	dial := daemon.NATS("sample", daemon.Common{NATSURL: url, NATSPrefix: "portolan"}, kittest.Logger(t), nil)
	nc, err := dial("changes")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if inbox := nc.NewInbox(); !strings.HasPrefix(inbox, "_INBOX_portolan_sample.") {
		t.Errorf("inbox %s", inbox)
	}
	// If the first attempt takes too long, the connection is made in the background.
	kittest.Eventually(t, "the connection", func() error {
		conns, err := srv.Connz(&server.ConnzOptions{})
		if err != nil || len(conns.Conns) != 1 || conns.Conns[0].Name != "portolan sample changes" {
			return fmt.Errorf("server sees %+v, %w", conns, err)
		}
		return nil
	})
}

// TestNATSConnectsWhenTheServerComes checks that a daemon that starts before the server connects by
// itself once the server runs.
func TestNATSConnectsWhenTheServerComes(t *testing.T) {
	srv, _ := kittest.NATS(t)
	gate := newGate(t, srv.Addr().String())
	dial := daemon.NATS("sample", daemon.Common{NATSURL: "nats://" + gate.addr, NATSPrefix: "portolan"}, kittest.Logger(t), nil)
	nc, err := dial("changes")
	if err != nil {
		t.Fatalf("without a server: %v", err)
	}
	defer nc.Close()
	if err := nc.Publish("portolan.hb.x", []byte("late")); err == nil {
		t.Error("a message was kept for later")
	}
	gate.unlock()
	kittest.Eventually(t, "the connection", func() error {
		if !nc.IsConnected() {
			return errors.New(nc.Status().String())
		}
		return nil
	})
}

// TestAnOutageOfNATSIsTwoLines checks that an outage is logged in two lines, although the errors of
// the attempts differ in their ports and servers.
func TestAnOutageOfNATSIsTwoLines(t *testing.T) {
	srv, _ := kittest.NATS(t)
	gates := []*gate{newGate(t, srv.Addr().String()), newGate(t, srv.Addr().String())}
	log := &lines{}
	dial := daemon.NATS("sample", daemon.Common{NATSURL: "nats://" + gates[0].addr + ",nats://" + gates[1].addr, NATSPrefix: "portolan"}, log.logger(), nil,
		nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(time.Millisecond, time.Millisecond))
	nc, err := dial("changes")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	kittest.Eventually(t, "ten attempts", func() error {
		if n := gates[0].refused() + gates[1].refused(); n < 10 {
			return fmt.Errorf("%d attempts", n)
		}
		return nil
	})
	gates[1].unlock()
	kittest.Eventually(t, "the end of the outage", func() error {
		if !strings.Contains(log.String(), "nats connected") {
			return errors.New(log.String())
		}
		return nil
	})
	text := log.String()
	if begun, over := strings.Count(text, "nats not connected"), strings.Count(text, "nats connected"); begun != 1 || over != 1 {
		t.Errorf("%d lines of its beginning and %d of its end, want one of each:\n%s", begun, over, text)
	}
	if !strings.Contains(text, "failures") || !strings.Contains(text, "after") {
		t.Errorf("the end says nothing of its length:\n%s", text)
	}
}

func TestNATSRefusesNonsense(t *testing.T) {
	_, err := daemon.NATS("sample", daemon.Common{NATSURL: "nats://[::bad"}, kittest.Logger(t), nil)("x")
	if err == nil || !strings.HasPrefix(err.Error(), "connect to nats: ") {
		t.Errorf("got %v", err)
	}
}

// gate is an address that closes every connection until it is unlocked, and then forwards
// connections to target. Unlike a closed port, it cannot be taken by another process meanwhile.
type gate struct {
	addr   string
	target string
	mu     sync.Mutex
	open   bool
	turned int // number of closed connections
	conns  sync.WaitGroup
}

func newGate(t *testing.T, target string) *gate {
	lis := kittest.Listen(t)
	g := &gate{addr: lis.Addr().String(), target: target}
	g.conns.Go(func() { g.accept(lis) })
	t.Cleanup(func() {
		lis.Close()
		g.conns.Wait()
	})
	return g
}

func (g *gate) unlock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = true
}

// refused returns the number of connections closed so far.
func (g *gate) refused() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.turned
}

func (g *gate) accept(lis net.Listener) {
	for {
		in, err := lis.Accept()
		if err != nil {
			return
		}
		g.mu.Lock()
		open := g.open
		if !open {
			g.turned++
		}
		g.mu.Unlock()
		if !open {
			in.Close()
			continue
		}
		g.conns.Go(func() { g.forward(in) })
	}
}

func (g *gate) forward(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", g.target)
	if err != nil {
		return
	}
	defer out.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(in, out) // either end may close at any time
		in.Close()
	})
	_, _ = io.Copy(out, in)
	out.Close()
	back.Wait()
}

// TestNATSErrorsHaveNoPassword checks that the error of an invalid URL does not have its password.
func TestNATSErrorsHaveNoPassword(t *testing.T) {
	for _, url := range []string{"nats://portolan:hush%zz@127.0.0.1:4222", "nats://portolan:hush@127.0.0.1:port"} {
		_, err := daemon.NATS("registry", daemon.Common{NATSURL: url, NATSPrefix: "portolan"}, slog.New(slog.DiscardHandler), nil)("relay")
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
