package docker

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"portolan.dev/registrar/dockertest"
	"portolan.dev/services/kit/kittest"
)

const (
	clients  = 3
	interval = 40 * time.Millisecond // between the requests of a client
	most     = 2000                  // requests of a client
	// mostLost is the largest number of requests that a client may lose when a container is killed.
	mostLost = 5
)

// TestStopLosesNothing stops containers under traffic and then kills one. A container serves for a few
// seconds after it was asked to stop. Requests may fail only because of the kill, and only if they began
// before the node had removed the backend.
func TestStopLosesNothing(t *testing.T) {
	t.Parallel() // with TestTheEngineRestarts
	w := start(t, dockertest.New(t, "x"), machineSocket)
	names := []string{"a", "b", "c"}
	for _, name := range names {
		w.serve(name)
	}
	load := startLoad(w.T, w.vip(len(names)))
	for _, name := range names {
		w.serve(name + "2")
		w.vip(len(names) + 1)
		w.lab.Docker("stop", "-t", "60", w.lab.Name(name))
		w.vip(len(names))
	}
	load.more(10)
	if lost := load.lost(); len(lost) > 0 {
		t.Errorf("%d of %d requests failed while containers were stopped: %v", len(lost), load.requests(), lost)
	}
	if pages := load.pages(); !pages["a"] || !pages["a2"] || !pages["b2"] || !pages["c2"] {
		t.Errorf("the pages %v came, want those of the first containers and of all that replaced them", pages)
	}

	w.lab.Docker("kill", w.lab.Name("a2"))
	w.vip(len(names) - 1)
	gone := time.Now()
	load.more(10)
	byClient := map[int]int{}
	for _, failed := range load.lost() {
		if byClient[failed.client]++; failed.began.After(gone) {
			t.Errorf("a request that began %s after the killed container had left the node failed: %v", failed.began.Sub(gone), failed)
		}
	}
	for client, lost := range byClient {
		if lost > mostLost {
			t.Errorf("client %d lost %d requests by the kill, want at most %d", client, lost, mostLost)
		}
	}
	t.Logf("%d requests; the kill cost %v by client", load.requests(), byClient)
}

// serve starts a container with a page that serves for some seconds after it was asked to stop. It is ready
// when the node can get the page.
func (w *world) serve(name string) {
	w.Helper()
	w.lab.Start(name, dockertest.Serving(name, "busybox sleep 4"),
		append(w.lab.Web(), "--network", w.lab.Networks[0], "--label", fmt.Sprintf("portolan.ready=http://:%d/ period=1s", dockertest.Port))...)
}

// load is clients that request a page again and again, each with a new connection for each request.
type load struct {
	t *testing.T

	mu       sync.Mutex
	answered map[string]bool // guarded by mu: the pages
	count    [clients]int    // guarded by mu: the requests that ended
	failed   []failure       // guarded by mu
}

// failure is a request without an answer.
type failure struct {
	client int
	began  time.Time
	err    error
}

func (f failure) String() string {
	return fmt.Sprintf("client %d at %s: %v", f.client, f.began.Format("15:04:05.000"), f.err)
}

// startLoad starts clients, which end with the test or after their most requests.
func startLoad(t *testing.T, url string) *load {
	t.Helper()
	l := &load{t: t, answered: map[string]bool{}}
	var running sync.WaitGroup
	stop := make(chan struct{})
	for client := range clients {
		running.Go(func() { l.run(client, url, stop) })
	}
	t.Cleanup(func() {
		close(stop)
		running.Wait()
	})
	return l
}

func (l *load) run(client int, url string, stop <-chan struct{}) {
	connect := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for range most {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		began := time.Now()
		page, err := get(connect, url)
		l.mu.Lock()
		l.count[client]++
		if err != nil {
			l.failed = append(l.failed, failure{client, began, err})
		} else {
			l.answered[page] = true
		}
		l.mu.Unlock()
	}
}

// more waits until each client has begun and ended n more requests.
func (l *load) more(n int) {
	l.t.Helper()
	l.mu.Lock()
	before := l.count
	l.mu.Unlock()
	kittest.Eventually(l.t, "more requests", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for client, count := range l.count {
			if count <= before[client]+n {
				return fmt.Errorf("client %d made %d requests, and %d before", client, count, before[client])
			}
		}
		return nil
	})
}

func (l *load) lost() []failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.failed)
}

func (l *load) requests() (all int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, count := range l.count {
		all += count
	}
	return all
}

// pages returns the pages that came.
func (l *load) pages() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.answered)
}
