package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"portolan.dev/services/kit/app"
)

// Server answers by UDP, by TCP and over TLS, on any number of addresses. Call Listen, then Run.
type Server struct {
	cfg     Config
	handler *Handler
	stats   *stats
	pending *pendingLimit
	conns   *connLimit
	clients clients // from the configuration

	udp []*net.UDPConn
	tcp []net.Listener
	tls []tlsListener

	handshakeFailures atomic.Uint64
}

// New returns a server that does not listen yet.
func New(cfg Config) *Server {
	cfg = cfg.withDefaults()
	return &Server{
		cfg:     cfg,
		handler: NewHandler(cfg),
		stats:   &stats{},
		pending: newPendingLimit(cfg.MaxPending),
		conns:   newConnLimit(cfg.MaxConns, cfg.MaxConnsPerClient),
		clients: newClients(cfg.Clients),
	}
}

// Handler returns the ordinary handler, for callers that ask without a network.
func (s *Server) Handler() *Handler { return s.handler }

// portTries bounds the search for a port that is free by UDP and by TCP, if the port is not given.
const portTries = 100

// Listen opens addr for UDP and TCP. Port 0 stands for any port that is free for both.
func (s *Server) Listen(addr string) error {
	for try := 1; ; try++ {
		pc, err := net.ListenPacket("udp", addr)
		if err != nil {
			return err
		}
		lis, err := net.Listen("tcp", pc.LocalAddr().String())
		if err == nil {
			conn, _ := pc.(*net.UDPConn) // the type that ListenPacket returns for udp
			setBuffers(conn)
			s.udp, s.tcp = append(s.udp, conn), append(s.tcp, lis)
			return nil
		}
		pc.Close()
		if _, port, _ := net.SplitHostPort(addr); port != "0" || try == portTries {
			return err
		}
	}
}

// socketBuffer is the size in bytes of the kernel's buffers for packets that wait while the workers
// are busy.
const socketBuffer = 4 << 20

// setBuffers sets the buffer sizes. A smaller size than requested is no error.
func setBuffers(conn *net.UDPConn) {
	_ = conn.SetReadBuffer(socketBuffer)
	_ = conn.SetWriteBuffer(socketBuffer)
}

// Addrs returns the addresses on which the server listens by UDP and TCP.
func (s *Server) Addrs() []string {
	var addrs []string
	for _, conn := range s.udp {
		addrs = append(addrs, conn.LocalAddr().String())
	}
	return addrs
}

// Close closes the sockets of Listen, for callers that do not call Run.
func (s *Server) Close() {
	for i := range s.udp {
		s.udp[i].Close()
		s.tcp[i].Close()
	}
	for _, lis := range s.tls {
		lis.Close()
	}
}

// Run answers until ctx is done. It then cuts off the questions that wait for upstream servers.
func (s *Server) Run(ctx context.Context) error {
	var tasks []app.Task
	for i := range s.udp {
		tasks = append(tasks,
			app.Task{Name: "dns/udp", Run: func(ctx context.Context) error { return s.serveUDP(ctx, s.udp[i]) }},
			app.Task{Name: "dns/tcp", Run: func(ctx context.Context) error { return s.serveTCP(ctx, s.tcp[i], nil) }})
	}
	for _, lis := range s.tls {
		tasks = append(tasks,
			app.Task{Name: "dns/tls", Run: func(ctx context.Context) error { return s.serveTCP(ctx, lis, lis.config) }})
	}
	tasks = append(tasks, app.Task{Name: "close", Run: func(ctx context.Context) error {
		<-ctx.Done()
		s.Close()
		return nil
	}})
	return app.RunTasks(ctx, tasks...)
}

// newFastPath returns a fast path for one worker, or nil if the fast path is off.
func (s *Server) newFastPath() *fastPath {
	if s.cfg.OrdinaryOnly {
		return nil
	}
	return &fastPath{
		names: s.cfg.Names, maxUDP: s.cfg.MaxUDP, recordLimits: s.cfg.recordLimits(), followsAliases: s.cfg.Forward != nil,
		rotate: rand.Uint32(), // #nosec G404 -- no secret; otherwise the first question of each connection would get the same records
	}
}

// handle calls the handler and recovers from a panic, because a bug that only one packet triggers
// must not end the service.
func (s *Server) handle(q Query, w *workerStats) (reply []byte, later func(context.Context) []byte) {
	defer func() {
		if p := recover(); p != nil {
			w.panics.Add(1)
			s.cfg.Log.Error("handler panicked", "packet", fmt.Sprintf("%x", q.Packet), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			reply, later = nil, nil
		}
	}()
	return s.handler.Handle(q)
}

// stats holds the counters of all workers. They are summed when they are read.
type stats struct {
	mu      sync.Mutex
	workers []*workerStats
	retired workerStats // counts of workers that have ended
}

// addWorker returns counters for one goroutine. Only that goroutine writes to them, so counting is
// cheap.
func (s *stats) addWorker() *workerStats {
	w := &workerStats{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers = append(s.workers, w)
	return w
}

// retire keeps the counts of a worker that ends.
func (s *stats) retire(w *workerStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired.add(w)
	s.workers = slices.DeleteFunc(s.workers, func(other *workerStats) bool { return other == w })
}

// sum adds the counters of all workers.
func (s *stats) sum() *workerStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := &workerStats{}
	total.add(&s.retired)
	for _, w := range s.workers {
		total.add(w)
	}
	return total
}
