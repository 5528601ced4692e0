package docker

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"portolan.dev/registrar/dockertest"
	"portolan.dev/registrar/internal/labels"
	"portolan.dev/registrar/source"
	"portolan.dev/registrar/sourcetest"
)

func TestContract(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T) sourcetest.World { return &fakeWorld{t: t, engine: newFakeEngine(t)} })
}

// fakeWorld is the world of a fake engine.
type fakeWorld struct {
	t       *testing.T
	engine  *fakeEngine
	started int
}

func (w *fakeWorld) Source() source.Source {
	return newSource(w.t, Options{Socket: w.engine.socket})
}

func (w *fakeWorld) Start(values map[string]string) string {
	w.started++
	c := web(w.started, unlabelled)
	for name, value := range values {
		c.Config.Labels[labels.Docker.Spell(name)] = value
	}
	w.engine.set(c, "start")
	return c.ID
}

func (w *fakeWorld) Stop(id string)   { w.engine.signal(id, "15") }
func (w *fakeWorld) Finish(id string) { w.engine.remove(id) }
func (w *fakeWorld) Kill(id string)   { w.engine.remove(id) }
func (w *fakeWorld) Disconnect()      { w.engine.stop() }
func (w *fakeWorld) Reconnect()       { w.engine.start(w.t) }

func TestRealContract(t *testing.T) {
	l := newLab(t)
	sourcetest.Run(t, func(t *testing.T) sourcetest.World { return newRealWorld(t, &lab{Lab: l.Part(t), t: t}) })
}

// realWorld is the world of the machine's engine. Sources reach it through a relay of the test.
type realWorld struct {
	*lab
	socket string
	relay  *relay
	names  map[string]string // by ID
}

func newRealWorld(t *testing.T, l *lab) *realWorld {
	t.Helper()
	dir, err := os.MkdirTemp("", "docker") // the path of a socket is at most 108 bytes long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &realWorld{lab: l, socket: filepath.Join(dir, "s"), names: map[string]string{}}
	w.Reconnect()
	t.Cleanup(w.Disconnect)
	return w
}

func (w *realWorld) Source() source.Source {
	s := newSource(w.t, Options{Socket: w.socket})
	s.pace.answer = defaultPace.answer
	return &ownSource{Source: s, mark: w.Mark}
}

func (w *realWorld) Start(values map[string]string) string {
	w.t.Helper()
	var options []string
	for name, value := range values {
		options = append(options, "--label", labels.Docker.Spell(name)+"="+value)
	}
	name := fmt.Sprintf("c%d", len(w.Containers()))
	id := w.Lab.Start(name, dockertest.Lasting("while ! [ -e /done ]; do busybox sleep 0.1; done"), options...)
	w.names[id] = w.Name(name)
	return id
}

func (w *realWorld) Stop(id string) {
	w.Stops.Go(func() { _, _ = w.Try("stop", "-t", "60", w.names[id]) })
}

func (w *realWorld) Finish(id string) {
	w.t.Helper()
	w.Docker("exec", w.names[id], "busybox", "touch", "/done")
}

func (w *realWorld) Kill(id string) {
	w.t.Helper()
	w.Docker("kill", w.names[id])
}

func (w *realWorld) Disconnect() { w.relay.close() }

func (w *realWorld) Reconnect() {
	w.t.Helper()
	listener, err := net.Listen("unix", w.socket)
	if err != nil {
		w.t.Fatal(err)
	}
	w.relay = &relay{listener: listener, target: dockertest.MachineSocket}
	go w.relay.serve()
}

// ownSource removes the containers of other tests from reports, because all tests use the same engine.
type ownSource struct {
	source.Source
	mark string
}

func (s *ownSource) Run(ctx context.Context, report func(source.Report)) error {
	return s.Source.Run(ctx, func(all source.Report) {
		own := source.Report{Err: all.Err}
		own.Workloads = slices.DeleteFunc(slices.Clone(all.Workloads), func(w source.Workload) bool { return !strings.HasPrefix(w.Name, s.mark) })
		own.Problems = slices.DeleteFunc(slices.Clone(all.Problems), func(p source.Problem) bool { return !strings.HasPrefix(p.Object, s.mark) })
		report(own)
	})
}

// relay forwards the connections of a socket to another socket until it is closed.
type relay struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	conns  []net.Conn
	closed bool
}

func (r *relay) serve() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", r.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if r.keep(client, server) {
			go r.copy(client, server)
			go r.copy(server, client)
		}
	}
}

// keep stores connections that close will close. If the relay is closed already, keep closes them.
func (r *relay) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		for _, conn := range conns {
			_ = conn.Close()
		}
		return false
	}
	r.conns = append(r.conns, conns...)
	return true
}

func (r *relay) copy(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_, _ = to.Close(), from.Close()
}

func (r *relay) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, conn := range r.conns {
		_ = conn.Close()
	}
}
