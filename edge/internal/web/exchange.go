package web

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"portolan.dev/services/backends"
)

// exchange is a request of the reference, and the session of the pool for it.
type exchange struct {
	set    *settings
	guard  *guard
	cancel context.CancelFunc

	backend     *backends.Backend // nil: none
	record      Record
	sent        time.Time    // when the request was given to the backend
	answered    time.Time    // when the head of the response had arrived
	received    atomic.Int64 // bytes of the request's body
	passed      atomic.Int64 // bytes of the response's body
	bodyTimeout atomic.Bool
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

func newExchange(set *settings, guard *guard, r *http.Request) *exchange {
	set.server.exchanges.Add(1)
	x := &exchange{set: set, guard: guard}
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

// Abort implements backends.Session.
func (x *exchange) Abort() { x.cancel() }

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
func (x *exchange) delivered() {
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

// finish releases the backend and records the request.
func (x *exchange) finish() {
	defer x.set.server.exchanges.Done()
	if x.backend != nil {
		x.set.pool.Release(x.backend, x, x.guard.info.client.Addr())
	}
	if x.set.config.Record == nil {
		return
	}
	if !x.answered.IsZero() {
		x.record.ResponseTime = time.Since(x.answered)
	}
	x.record.Received, x.record.Sent = x.received.Load(), x.passed.Load()
	x.set.config.Record(&x.record)
}
