package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"portolan.dev/services/kit/app"
)

const (
	batchSize = 32
	// maxQuery is the longest datagram that is read. A question with every option there is stays far below.
	maxQuery = 2048
)

// datagrams reads and writes batches; every system has one of its own.
type datagrams interface {
	// receive waits for packets, at most batchSize of them.
	receive() (int, error)
	packet(i int) []byte
	client(i int) netip.AddrPort
	// space is where the answer to a packet may be written.
	space(i int) []byte
	// answer stages an answer to packet i: in space(i) or elsewhere. It must stay as it is until send.
	answer(i int, reply []byte)
	// send writes what was staged. What the network does not take is lost, as datagrams are.
	send() error
	// route is what it takes to answer packet i later.
	route(i int) route
}

// route is the way back to a client: its address, and which of our addresses it asked.
type route struct {
	client  netip.AddrPort
	control []byte
}

func (s *Server) serveUDP(ctx context.Context, conn *net.UDPConn) error {
	var w waiting
	defer w.wg.Wait()
	var tasks []app.Task
	for range s.cfg.Workers {
		d, err := newDatagrams(conn, s.cfg.MaxUDP)
		if err != nil {
			return fmt.Errorf("listen for dns: %w", err)
		}
		tasks = append(tasks, app.Task{Name: "worker", Run: func(ctx context.Context) error {
			return s.udpWorker(ctx, &w, conn, d)
		}})
	}
	return app.RunTasks(ctx, tasks...)
}

func (s *Server) udpWorker(ctx context.Context, wait *waiting, conn *net.UDPConn, d datagrams) error {
	w := s.stats.worker()
	defer s.stats.retire(w)
	fast := s.newFastPath()
	for {
		n, err := d.receive()
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return nil //nolint:nilerr // the socket was closed because we stop
		}
		if err != nil {
			return fmt.Errorf("read datagrams: %w", err)
		}
		for i := range n {
			if forged(d.client(i)) {
				w.ignored.Add(1)
				continue
			}
			if fast == nil || !s.answerFast(w, fast, d, i) {
				s.answerUDP(ctx, w, wait, conn, d, i)
			}
		}
		if err := d.send(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.cfg.Log.Warn("answers are lost", "err", err)
		}
	}
}

// answerFast stages the answer to packet i if it is an ordinary question.
func (s *Server) answerFast(w *worker, fast *fastPath, d datagrams, i int) bool {
	client := d.client(i)
	if s.short(client.Addr()) {
		return false
	}
	reply, ok := fast.answer(d.space(i)[:0], d.packet(i), false, s.handler.recursionFor(client.Addr()))
	if !ok {
		return false
	}
	w.countFast(byUDP, fast, reply)
	s.logQuery("udp", client, reply)
	d.answer(i, reply)
	return true
}

// answerUDP stages the answer to packet i, now or later.
func (s *Server) answerUDP(ctx context.Context, w *worker, wait *waiting, conn *net.UDPConn, d datagrams, i int) {
	packet := d.packet(i)
	client := d.client(i)
	qtype := questionType(packet)
	reply, later := s.handle(Query{Packet: packet, Client: client, Short: s.short(client.Addr())}, w)
	switch {
	case later != nil:
		r := d.route(i)
		queued := s.start(wait, func() {
			reply := later(ctx)
			s.logQuery("udp", r.client, reply)
			_, _, err := conn.WriteMsgUDPAddrPort(reply, r.control, r.client)
			if err != nil && ctx.Err() == nil {
				s.cfg.Log.Debug("answer is lost", "client", r.client, "err", err)
			}
		})
		if !queued {
			w.dropped.Add(1)
		}
		w.count(byUDP, qtype, nil)
	case reply == nil:
		w.ignored.Add(1)
	default:
		s.logQuery("udp", client, reply)
		w.count(byUDP, qtype, reply)
		d.answer(i, reply)
	}
}

// reflectors has a bit for each port from which no question comes: 0, at which nobody can be reached, and those of services that answer
// whatever they get (echo, daytime, quote of the day, character generator, time: RFC 862-868). With a forged question from there the two of us
// would talk to each other for ever. From port 53 name servers ask; our answers end there, because answers are never answered.
const reflectors uint64 = 1<<0 | 1<<7 | 1<<13 | 1<<17 | 1<<19 | 1<<37

func forged(client netip.AddrPort) bool { return reflectors>>client.Port()&1 != 0 }

// short says whether the answer to a client must not be longer than its question.
func (s *Server) short(client netip.Addr) bool {
	return !s.clients.empty() && !s.clients.contain(client)
}
