package web

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"portolan.dev/edge/internal/ending"
	"portolan.dev/services/backends"
)

// exchange is a request of the reference, and the session of the pool for it.
type exchange struct {
	set   *settings
	guard *guard
	// multiplexed reports whether the client's connection has other requests at the same time.
	multiplexed bool
	cancel      context.CancelFunc
	control     *http.ResponseController

	backend  *backends.Backend // nil: none
	record   Record
	sent     time.Time    // when the request was given to the backend
	answered time.Time    // when the head of the response had arrived
	received atomic.Int64 // bytes of the request's body
	passed   atomic.Int64 // bytes of the response's body
	// bodiless reports whether the response has no body. Then its head ends it, and is not sent before the end is known:
	// gRPC takes the head of a failed call for its trailers.
	bodiless bool
	failed   atomic.Pointer[failure] // the first one; nil: none
	reading  atomic.Bool             // bytes of the client are awaited
	writing  atomic.Bool             // the client is to take bytes

	mu       sync.Mutex
	upstream *net.TCPConn // to the backend; nil: none yet
	progress progress     // of the request; the sweeper alone uses it, and carrier
	carrier  progress     // of the client's connection
	ended    bool
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

func newExchange(set *settings, guard *guard, r *http.Request) *exchange {
	x := &exchange{set: set, guard: guard, multiplexed: r.ProtoMajor > 1}
	set.server.exchanges.running.Add(1)
	x.record = Record{
		Time: time.Now(), RequestTime: -1, BackendTime: -1, ResponseTime: -1,
		Method: r.Method, Proto: r.Proto, UserAgent: r.UserAgent(),
	}
	x.record.setConnection(&guard.info)
	x.record.Host, x.record.URI = r.Host, r.RequestURI
	return x
}

func portString(port uint16) string { return strconv.Itoa(int(port)) }

// forgetRequest removes the fields of the stand-in request, which net/http has read in place of a refused request.
func (x *exchange) forgetRequest() {
	x.record.Method, x.record.Host, x.record.URI, x.record.Proto, x.record.UserAgent = "", "", "", "", ""
}

// begin lets the sweeper look at the request.
func (x *exchange) begin(cancel context.CancelFunc, control *http.ResponseController) {
	x.cancel, x.control = cancel, control
	x.set.server.exchanges.add(x)
	x.set.server.sweeper.begin()
}

// Abort implements backends.Session.
func (x *exchange) Abort() {
	x.failedBy(failStopped)
	x.cancel()
}

// failedBy records why the request does not end as it should. The first reason counts, because others follow from it.
func (x *exchange) failedBy(f failure) { x.failed.CompareAndSwap(nil, &f) }

// failure returns the reason why the request does not end as it should, which is f if none was recorded before.
func (x *exchange) failure(f failure) failure {
	x.failedBy(f)
	return *x.failed.Load()
}

// failureOf returns the failure for an error of the exchange with the backend.
func (x *exchange) failureOf(ctx context.Context, err error) failure {
	refused := x.guard.bodyRefused()
	switch {
	case refused != nil && !x.guard.notHTTP1.Load():
		return x.failure(failureOfRefusal(refused))
	case x.set.server.requests.Err() != nil:
		return x.failure(failStopped)
	case ctx.Err() != nil:
		return x.failure(failClientGone)
	case isTimeout(err) && x.reading.Load():
		return x.failure(failClientTime)
	}
	return x.failure(failureOf(err))
}

// ending returns the way in which the request has ended.
func (x *exchange) ending() ending.Ending {
	if f := x.failed.Load(); f != nil {
		return f.end
	}
	return ending.Complete
}

// BackendRemoved implements backends.Session. A request cannot continue elsewhere.
func (x *exchange) BackendRemoved() {}

// pick chooses a backend that was not tried.
func (x *exchange) pick(tried []*backends.Backend) *backends.Backend {
	b := x.set.pool.Pick(x.guard.info.client, x.guard.info.local, tried, x)
	if b != nil {
		x.backend, x.record.Backend = b, b.Addr()
	}
	return b
}

// fail releases a backend that could not be reached, and marks it as failed.
func (x *exchange) fail(err error) {
	x.set.config.Dialer.Fail(x.set.pool, x.backend, err)
	x.set.pool.Release(x.backend, x, netip.Addr{})
	x.backend = nil
}

// delivered records the time at which the request has got a connection to its backend.
func (x *exchange) delivered(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.upstream, _ = conn.(*net.TCPConn)
	x.sent = time.Now()
	x.record.RequestTime = x.sent.Sub(x.record.Time)
}

// responded records the time and the status of the head of a response.
func (x *exchange) responded(status int) {
	x.answered = time.Now()
	x.record.BackendStatus = status
	if !x.sent.IsZero() {
		x.record.BackendTime = x.answered.Sub(x.sent)
	}
}

// end keeps the sweeper away from the request, of which net/http uses parts again.
func (x *exchange) end() {
	x.set.server.exchanges.remove(x)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
}

// finish releases the backend and records the request.
func (x *exchange) finish() {
	defer x.set.server.exchanges.running.Done()
	x.end()
	if x.backend != nil {
		x.set.pool.Release(x.backend, x, x.guard.info.client.Addr())
	}
	if x.set.config.Record == nil {
		return
	}
	if !x.answered.IsZero() {
		x.record.ResponseTime = time.Since(x.answered)
	}
	x.record.Ending = x.ending()
	x.record.Received, x.record.Sent = x.received.Load(), x.passed.Load()
	x.set.config.Record(&x.record)
}
