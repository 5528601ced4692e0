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
	// maxQuery is the largest datagram that is read, in bytes. A question with all existing options
	// is far smaller.
	maxQuery = 2048
)

// packetConn reads and writes batches of packets. Its implementation depends on the operating
// system.
type packetConn interface {
	// receive waits for packets and returns their number, at most batchSize.
	receive() (int, error)
	packet(i int) []byte
	client(i int) netip.AddrPort
	// replyBuffer returns the buffer for the answer to packet i.
	replyBuffer(i int) []byte
	// stage stages an answer to packet i, in replyBuffer(i) or elsewhere. The answer must not
	// change until send.
	stage(i int, reply []byte)
	// send writes the staged answers. Answers that the network does not accept are lost, like any
	// datagram.
	send() error
	// route returns the route for a later answer to packet i.
	route(i int) route
}

// route is the way back to a client: its address, and the local address to which it sent the
// question.
type route struct {
	client  netip.AddrPort
	control []byte
}

func (s *Server) serveUDP(ctx context.Context, conn *net.UDPConn) error {
	var w pendingQueries
	defer w.wg.Wait()
	var tasks []app.Task
	for range s.cfg.Workers {
		d, err := newPacketConn(conn, s.cfg.MaxUDP)
		if err != nil {
			return fmt.Errorf("listen for dns: %w", err)
		}
		tasks = append(tasks, app.Task{Name: "worker", Run: func(ctx context.Context) error {
			return s.udpWorker(ctx, &w, conn, d)
		}})
	}
	return app.RunTasks(ctx, tasks...)
}

func (s *Server) udpWorker(ctx context.Context, wait *pendingQueries, conn *net.UDPConn, d packetConn) error {
	w := s.stats.addWorker()
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
			if fromReflector(d.client(i)) {
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

// answerFast stages the answer to packet i if the packet is an ordinary question.
func (s *Server) answerFast(w *workerStats, fast *fastPath, d packetConn, i int) bool {
	client := d.client(i)
	if s.mustNotAmplify(client.Addr()) {
		return false
	}
	reply, ok := fast.answer(d.replyBuffer(i)[:0], d.packet(i), false, s.handler.mayRecurse(client.Addr()))
	if !ok {
		return false
	}
	w.countFast(byUDP, fast, reply)
	s.logQuery("udp", client, reply)
	d.stage(i, reply)
	return true
}

// answerUDP stages the answer to packet i, or starts a goroutine that answers later.
func (s *Server) answerUDP(ctx context.Context, w *workerStats, wait *pendingQueries, conn *net.UDPConn, d packetConn, i int) {
	packet := d.packet(i)
	client := d.client(i)
	qtype := questionType(packet)
	reply, later := s.handle(Query{Packet: packet, Client: client, NoAmplification: s.mustNotAmplify(client.Addr())}, w)
	switch {
	case later != nil:
		r := d.route(i)
		s.startPending(w, wait, client.Addr(), func() {
			reply := later(ctx)
			s.logQuery("udp", r.client, reply)
			_, _, err := conn.WriteMsgUDPAddrPort(reply, r.control, r.client)
			if err != nil && ctx.Err() == nil {
				s.cfg.Log.Debug("answer is lost", "client", r.client, "err", err)
			}
		})
		w.count(byUDP, qtype, nil)
	case reply == nil:
		w.ignored.Add(1)
	default:
		s.logQuery("udp", client, reply)
		w.count(byUDP, qtype, reply)
		d.stage(i, reply)
	}
}

// reflectors has a bit for each port that sends no genuine questions: port 0, which cannot be
// reached, and the ports of services that answer any packet (echo, daytime, quote of the day,
// character generator, time: RFC 862-868). A forged question from such a port would make the two
// servers answer each other forever. Port 53 is allowed, because name servers send questions from
// it, and an answer to them ends there: answers are never answered.
const reflectors uint64 = 1<<0 | 1<<7 | 1<<13 | 1<<17 | 1<<19 | 1<<37

func fromReflector(client netip.AddrPort) bool { return reflectors>>client.Port()&1 != 0 }

// mustNotAmplify reports whether the answer to a client must not be longer than its question.
func (s *Server) mustNotAmplify(client netip.Addr) bool {
	return !s.clients.empty() && !s.clients.contains(client)
}
