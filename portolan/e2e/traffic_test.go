package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"portolan.dev/services/kit/kittest"
)

// oneShot makes a connection per request, so that every request is balanced.
var oneShot = &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}

// get asks over HTTP and returns the name of the backend that answered.
func get(address string) (string, error) {
	response, err := oneShot.Get("http://" + address + "/")
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %s", response.Status)
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(string(body), "hello from "), ",")
	return name, nil
}

// spread asks n times and counts the answers by backend.
func spread(t *testing.T, address string, n int) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for range n {
		name, err := get(address)
		if err != nil {
			t.Fatalf("GET %s: %v", address, err)
		}
		counts[name]++
	}
	return counts
}

// attempts is the largest number of times a request is made. A request inside a process dies when
// that process is killed. A proxy in front cannot know whether it was executed, so clients repeat
// requests that can be repeated. Two repetitions are needed, because the kernel closes the
// connections of a killed process before its listening socket, so that a quick client can connect
// to it once more.
const attempts = 3

// load sends requests from several clients until stopped. A failed request is repeated on a new
// connection, as HTTP clients do.
type load struct {
	t        *testing.T
	clients  int
	stop     chan struct{}
	running  sync.WaitGroup
	requests atomic.Int64
	again    atomic.Int64 // attempts beyond the first

	mu       sync.Mutex
	failures []error
}

func startLoad(t *testing.T, address string, clients int) *load {
	l := &load{t: t, clients: clients, stop: make(chan struct{})}
	for range clients {
		l.running.Go(func() { l.ask(address) })
	}
	t.Cleanup(func() { l.end() })
	return l
}

func (l *load) ask(address string) {
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-pace.C:
		}
		_, err := get(address)
		for attempt := 1; err != nil && attempt < attempts; attempt++ {
			l.again.Add(1)
			_, err = get(address)
		}
		l.requests.Add(1)
		if err != nil {
			l.mu.Lock()
			l.failures = append(l.failures, err)
			l.mu.Unlock()
		}
	}
}

// more waits for n further requests.
func (l *load) more(n int64) {
	l.t.Helper()
	want := l.requests.Load() + n
	kittest.Eventually(l.t, fmt.Sprintf("%d more requests", n), func() error {
		if got := l.requests.Load(); got < want {
			return fmt.Errorf("%d of %d", got, want)
		}
		return nil
	})
}

// end stops the requests and returns the failures.
func (l *load) end() []error {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.running.Wait()
	return l.failures
}

// awaitRefused waits until no process listens on an address any more.
func awaitRefused(t *testing.T, address string) {
	t.Helper()
	kittest.Eventually(t, address+" refuses", func() error {
		conn, err := net.DialTimeout("tcp", address, patience)
		if err == nil {
			_ = conn.Close()
			return errors.New("it accepts")
		}
		if !strings.Contains(err.Error(), "refused") {
			return err
		}
		return nil
	})
}
