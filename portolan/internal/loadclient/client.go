package loadclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options are the settings of the client.
type Options struct {
	URL     string
	Rate    int           // requests started per second
	Tries   int           // attempts per request
	Timeout time.Duration // of one attempt
	Report  time.Duration // between two reports
}

// Report counts all requests since the client started, including those before there was a service.
type Report struct {
	Requests int `json:"asked"`
	Failed   int `json:"failed"` // requests without an answer to any attempt
	// Retried counts the failed attempts of requests with an answer to another attempt.
	Retried int `json:"retried"`
	// Retrying is the number of requests that have failed attempts and are not in the other counts yet.
	Retrying int    `json:"retrying"`
	Slowest  string `json:"slowest"` // since the previous report
	// Answers counts the answers by backend: the answer's text up to a comma.
	Answers  map[string]int `json:"answers"`
	LastFail string         `json:"lastFailure,omitempty"`
}

// Run sends requests until ctx ends. It passes reports on, the last one when all requests have
// ended.
func Run(ctx context.Context, o Options, report func(Report)) error {
	if o.Rate < 1 || o.Tries < 1 || o.Timeout <= 0 || o.Report <= 0 {
		return errors.New("rate, tries, timeout and report must be positive")
	}
	if _, err := http.NewRequest(http.MethodGet, o.URL, nil); err != nil {
		return err
	}
	a := &loadClient{options: o, client: newHTTPClient(o.Timeout), answers: map[string]int{}}
	next := time.NewTicker(time.Second / time.Duration(o.Rate))
	defer next.Stop()
	tell := time.NewTicker(o.Report)
	defer tell.Stop()
	var running sync.WaitGroup
	for {
		select {
		case <-next.C:
			running.Go(a.request)
		case <-tell.C:
			report(a.report())
		case <-ctx.Done():
			running.Wait()
			report(a.report())
			return nil
		}
	}
}

// newHTTPClient returns a client that makes a connection for each request, so that each request
// resolves the name and is balanced again.
func newHTTPClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext:       (&net.Dialer{Timeout: timeout}).DialContext,
		},
	}
}

type loadClient struct {
	options Options
	client  *http.Client

	mu      sync.Mutex
	total   Report
	slowest time.Duration
	answers map[string]int
}

// maxPause is the longest pause before another attempt. Pauses are random, because attempts at regular
// times can meet the same dead backend again and again: at 20 requests a second, a timeout of 1 s and one of
// three backends dead there are 30 attempts a second, and a balancer that takes the backends in turn sends
// each later attempt of a request to the dead one.
const maxPause = 100 * time.Millisecond

// request makes one request. A started request continues while the command is being stopped,
// because it counts.
func (a *loadClient) request() {
	began := time.Now()
	var from string
	var err error
	failures := 0
	for failures < a.options.Tries {
		if from, err = a.attempt(); err == nil {
			break
		}
		if failures++; failures == 1 {
			a.retrying(1)
		}
		time.Sleep(rand.N(maxPause)) // #nosec G404 -- a pause is no secret
	}
	a.count(from, failures, time.Since(began), err)
}

func (a *loadClient) retrying(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total.Retrying += n
}

func (a *loadClient) count(from string, failures int, took time.Duration, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total.Requests++
	a.slowest = max(a.slowest, took)
	if failures > 0 {
		a.total.Retrying--
	}
	if err != nil {
		a.total.Failed++
		a.total.LastFail = err.Error()
		return
	}
	a.total.Retried += failures
	a.answers[from]++
}

// attempt makes one attempt and returns the name of the backend that answered.
func (a *loadClient) attempt() (string, error) {
	resp, err := a.client.Get(a.options.URL)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("GET %s: %s", a.options.URL, resp.Status)
	}
	from, _, _ := strings.Cut(strings.TrimSpace(string(body)), ",")
	return from, nil
}

func (a *loadClient) report() Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.total
	r.Slowest = a.slowest.Round(time.Millisecond / 10).String()
	a.slowest = 0
	r.Answers = make(map[string]int, len(a.answers))
	for from, n := range a.answers {
		r.Answers[from] = n
	}
	return r
}
