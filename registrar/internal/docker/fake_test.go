package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"portolan.dev/registrar/source"
	"portolan.dev/services/kit/kittest"
)

// fakeEngine is an engine at a unix socket. The test decides its answers.
type fakeEngine struct {
	socket string
	server *http.Server

	mu         sync.Mutex
	version    engineVersion
	containers map[string]*container
	history    []event
	streams    map[chan event]bool
	deaf       bool              // events are lost
	hung       bool              // requests get no answer
	silent     map[string]bool   // containers for which inspect gets no answer
	bodies     map[string]string // answers that replace the true ones, by the end of the path
	requests   []string          // paths
}

func newFakeEngine(t *testing.T) *fakeEngine {
	t.Helper()
	dir, err := os.MkdirTemp("", "docker") // the path of a socket is at most 108 bytes long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	e := &fakeEngine{
		socket: filepath.Join(dir, "s"), version: engineVersion{APIVersion: "1.41", MinAPIVersion: "1.12"},
		containers: map[string]*container{}, streams: map[chan event]bool{}, silent: map[string]bool{}, bodies: map[string]string{},
	}
	e.start(t)
	t.Cleanup(e.stop)
	return e
}

func (e *fakeEngine) start(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("unix", e.socket)
	if err != nil {
		t.Fatal(err)
	}
	e.server = &http.Server{Handler: http.HandlerFunc(e.serve)}
	server := e.server
	go func() { _ = server.Serve(listener) }()
}

func (e *fakeEngine) stop() { _ = e.server.Close() }

func (e *fakeEngine) serve(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.requests = append(e.requests, r.URL.Path)
	hung := e.hung
	id := strings.TrimSuffix(r.URL.Path[strings.LastIndex(strings.TrimSuffix(r.URL.Path, "/json"), "/")+1:], "/json")
	hung = hung || e.silent[id]
	body, special := "", false
	for end, text := range e.bodies {
		if strings.HasSuffix(r.URL.Path, end) {
			body, special = text, true
		}
	}
	e.mu.Unlock()
	switch {
	case hung:
		<-r.Context().Done()
	case special:
		_, _ = w.Write([]byte(body))
	case r.URL.Path == "/version":
		e.answer(w, func() any { return e.version })
	case strings.HasSuffix(r.URL.Path, "/_ping"):
		_, _ = w.Write([]byte("OK"))
	case strings.HasSuffix(r.URL.Path, "/containers/json"):
		e.answer(w, e.list)
	case strings.HasSuffix(r.URL.Path, "/events"):
		e.stream(w, r)
	default:
		e.inspect(w, id)
	}
}

func (e *fakeEngine) answer(w http.ResponseWriter, value func() any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = json.NewEncoder(w).Encode(value())
}

func (e *fakeEngine) list() any {
	all := []listed{}
	for id, c := range e.containers {
		if c.runs() || c.State.Status == "restarting" {
			all = append(all, listed{ID: id})
		}
	}
	return all
}

func (e *fakeEngine) inspect(w http.ResponseWriter, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.containers[id]
	if c == nil {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"message":"No such container"}`))
		return
	}
	_ = json.NewEncoder(w).Encode(c)
}

func (e *fakeEngine) stream(w http.ResponseWriter, r *http.Request) {
	events := make(chan event, 1024)
	e.mu.Lock()
	for _, one := range e.history {
		events <- one
	}
	e.streams[events] = true
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.streams, events)
		e.mu.Unlock()
	}()
	w.WriteHeader(http.StatusOK)
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case one := <-events:
			_ = json.NewEncoder(w).Encode(one)
		}
	}
}

// set changes a container and sends an event about it.
func (e *fakeEngine) set(c *container, action string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	copied := *c
	e.containers[c.ID] = &copied
	e.send(c.ID, action, "")
}

// remove removes a container.
func (e *fakeEngine) remove(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.containers, id)
	e.send(id, "die", "")
	e.send(id, "destroy", "")
}

// signal sends an event that a container was sent a signal.
func (e *fakeEngine) signal(id, signal string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.send(id, "kill", signal)
}

// send sends an event. The caller holds mu.
func (e *fakeEngine) send(id, action, signal string) {
	one := event{Type: "container", Action: action, TimeNano: time.Now().UnixNano()}
	one.Actor.ID = id
	one.Actor.Attributes = map[string]string{"signal": signal}
	if e.deaf {
		return
	}
	e.history = append(e.history, one)
	for stream := range e.streams {
		stream <- one
	}
}

// change changes the behavior of the engine.
func (e *fakeEngine) change(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

// asked returns the number of requests with a path that ends in end.
func (e *fakeEngine) asked(end string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(e.requests), func(path string) bool { return !strings.HasSuffix(path, end) }))
}

// idOf returns the ID of the container with a number.
func idOf(n int) string { return fmt.Sprintf("%064x", n) }

// web returns a container that is a backend of the service web.
func web(n int, change ...func(*container)) *container {
	c := &container{ID: idOf(n), Name: fmt.Sprintf("/web%d", n)}
	c.State.Status, c.State.StartedAt = "running", time.Now().Add(-time.Second)
	c.Config.Labels = map[string]string{"portolan.service": "web"}
	c.Config.ExposedPorts = map[string]struct{}{"8000/tcp": {}}
	c.NetworkSettings.Networks = map[string]endpoint{"bridge": {IPAddress: fmt.Sprintf("172.17.0.%d", n)}}
	for _, f := range change {
		f(c)
	}
	return c
}

func label(name, value string) func(*container) {
	return func(c *container) { c.Config.Labels[name] = value }
}

func exposes(ports ...string) func(*container) {
	return func(c *container) {
		c.Config.ExposedPorts = map[string]struct{}{}
		for _, port := range ports {
			c.Config.ExposedPorts[port] = struct{}{}
		}
	}
}

// recorder keeps the reports of a source.
type recorder struct {
	mu   sync.Mutex
	all  []source.Report
	stop context.CancelFunc
}

// run runs the source until the recorder's stop is called or the test ends.
func run(t *testing.T, s *Source) *recorder {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &recorder{}
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, func(report source.Report) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.all = append(r.all, report)
		})
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := kittest.Receive(t, "the end of the source", ended); err != nil {
			t.Errorf("Run returns %v after its context is done", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// newSource returns a source with short times.
func newSource(t *testing.T, options Options) *Source {
	t.Helper()
	if options.Relist == 0 {
		options.Relist = time.Hour // tests pass because of events, not because of the periodic list
	}
	options.Log, options.Metrics = kittest.Logger(t), prometheus.NewRegistry()
	s := New(options)
	s.pace = pace{answer: 2 * time.Second, ping: 50 * time.Millisecond, retry: 50 * time.Millisecond, first: time.Millisecond, pause: 50 * time.Millisecond}
	return s
}

func (r *recorder) last() (source.Report, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) == 0 {
		return source.Report{}, errors.New("there is no report")
	}
	return r.all[len(r.all)-1], nil
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// reports waits until the last report has the workloads want, in the form of describe, such as "web1 ready".
func (r *recorder) reports(t *testing.T, want ...string) {
	t.Helper()
	kittest.Eventually(t, "the workloads "+strings.Join(want, ", "), func() error {
		last, err := r.last()
		if err != nil {
			return err
		}
		if last.Err != nil {
			return last.Err
		}
		if got := describe(last); !slices.Equal(got, want) {
			return fmt.Errorf("the report has %q with problems %v", got, last.Problems)
		}
		return nil
	})
}

// describe returns a text for each workload of a report, sorted.
func describe(report source.Report) []string {
	var all []string
	for _, load := range report.Workloads {
		state := "unready"
		switch {
		case load.Terminating:
			state = "terminating"
		case load.Ready:
			state = "ready"
		}
		all = append(all, load.Name+" "+state)
	}
	slices.Sort(all)
	return all
}

// fails waits until the last report has an error that contains a text.
func (r *recorder) fails(t *testing.T, text string) {
	t.Helper()
	kittest.Eventually(t, "an error with "+text, func() error {
		last, err := r.last()
		switch {
		case err != nil:
			return err
		case last.Err == nil || !strings.Contains(last.Err.Error(), text):
			return fmt.Errorf("the report has the error %v", last.Err)
		case len(last.Workloads) > 0:
			return errors.New("a report with an error has workloads")
		}
		return nil
	})
}
