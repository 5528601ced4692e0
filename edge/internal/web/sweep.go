package web

import (
	"sync"
	"sync/atomic"
	"time"

	"portolan.dev/services/backends"
)

// mostBetweenSweeps bounds the time between two sweeps, so that a shorter idle timeout acts soon.
const mostBetweenSweeps = 5 * time.Second

// sweeper looks in intervals for exchanges that move no byte. Progress is counted by the kernel, because an exchange whose
// peer is slow, or whose bytes the kernel moves, can go on for a long time without a return to this process. Therefore
// connections have no deadlines while they have a request.
type sweeper struct {
	running atomic.Bool
	all     func() []swept
	idle    func() time.Duration
}

// swept is an exchange, or a connection that may have one.
type swept interface {
	// sweep ends the exchange if it has moved no byte for the idle time.
	sweep(now time.Time, idle time.Duration)
}

// begin starts the sweeps unless they run.
func (s *sweeper) begin() {
	if s.running.CompareAndSwap(false, true) {
		s.schedule()
	}
}

func (s *sweeper) schedule() { time.AfterFunc(min(s.idle()/8, mostBetweenSweeps), s.sweep) }

// sweep looks at all exchanges. The sweeps end when there are none.
func (s *sweeper) sweep() {
	all, now, idle := s.all(), time.Now(), s.idle()
	for _, e := range all {
		e.sweep(now, idle)
	}
	if len(all) > 0 {
		s.schedule()
		return
	}
	s.running.Store(false)
	if len(s.all()) > 0 { // it came before running was false
		s.begin()
	}
}

// progress is the last progress of an exchange that the sweeper has seen.
type progress struct {
	bytes uint64
	since time.Time
}

// idle reports whether the progress has been the same for the time after.
func (p *progress) idle(bytes uint64, now time.Time, after time.Duration) bool {
	if bytes != p.bytes || p.since.IsZero() {
		p.bytes, p.since = bytes, now
	}
	return now.Sub(p.since) >= after
}

// past is a deadline that ends a wait at once.
var past = time.Unix(1, 0)

// sweep implements swept.
func (c *fastConn) sweep(now time.Time, idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting || c.dialing != nil { // for a request, or for a backend, with limits of their own
		c.progress = progress{}
		return
	}
	bytes := backends.Progress(c.conn.accepted.Raw)
	if c.link != nil {
		bytes += backends.Progress(c.link.TCPConn)
	}
	if c.progress.idle(bytes, now, idle) {
		c.expire()
	}
}

// expire ends the wait of the exchange for the side that moves no bytes. The caller holds the lock.
func (c *fastConn) expire() {
	switch {
	case c.upload != nil && c.upload.waitsForClient(c):
		c.expired = true
		c.conn.SetReadDeadline(past) //nolint:errcheck // then the client is gone
	case c.giving.Load(), c.splicing.Load() && arrived(c.link.TCPConn):
		c.expired = true
		c.conn.SetWriteDeadline(past) //nolint:errcheck // then the client is gone
	case c.link != nil:
		c.link.expired = true
		c.link.SetDeadline(past) //nolint:errcheck // then the backend is gone
	}
}

// sweep implements swept.
func (x *exchange) sweep(now time.Time, idle time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	carried := backends.Progress(x.guard.accepted.Raw)
	stuck := x.carrier.idle(carried, now, idle)
	bytes := uint64(x.received.Load()) + uint64(x.passed.Load()) // #nosec G115 -- they are not negative
	if !x.multiplexed {
		bytes += carried
	}
	if x.upstream != nil {
		bytes += backends.Progress(x.upstream)
	}
	if x.upstream == nil && !x.writing.Load() { // a dial has a limit of its own
		x.progress = progress{}
		return
	}
	if !x.ended && x.progress.idle(bytes, now, idle) {
		x.expire()
		if x.multiplexed && stuck && x.writing.Load() {
			backends.Reset(x.guard.accepted.Raw) // otherwise it would stay, without a request
		}
	}
}

// expire ends the wait of the exchange for the side that moves no bytes. The caller holds the lock.
func (x *exchange) expire() {
	switch {
	case x.guard.raw.Load():
		x.failedBy(failIdle)
		x.cancel()
	case x.writing.Load():
		x.failedBy(failClientStuck)
		x.control.SetWriteDeadline(past) //nolint:errcheck // then the client is gone
	case x.reading.Load():
		x.failedBy(failClientTime)
		x.control.SetReadDeadline(past) //nolint:errcheck // then the client is gone
	default:
		x.failedBy(failTime)
		x.cancel()
	}
}

// exchanges are the requests of references. The sweeper looks at those in all.
type exchanges struct {
	running sync.WaitGroup

	mu  sync.Mutex
	all map[*exchange]struct{}
}

func (e *exchanges) add(x *exchange) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = map[*exchange]struct{}{}
	}
	e.all[x] = struct{}{}
}

func (e *exchanges) remove(x *exchange) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.all, x)
}

// swept returns all that the sweeper looks at.
func (s *Server) swept() []swept {
	var all []swept
	s.fast.each(func(c *fastConn) { all = append(all, c) })
	s.exchanges.mu.Lock()
	defer s.exchanges.mu.Unlock()
	for x := range s.exchanges.all {
		all = append(all, x)
	}
	return all
}
