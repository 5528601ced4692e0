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

// Server answers on any number of addresses, by UDP, by TCP and over TLS. Listen, then Run.
type Server struct {
	cfg     Config
	handler *Handler
	stats   *stats
	pending chan struct{} // a place for each question that waits
	conns   *connLimit
	clients clients // those of the configuration

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
		pending: make(chan struct{}, cfg.MaxPending),
		conns:   newConnLimit(cfg.MaxConns, cfg.MaxConnsPerClient),
		clients: newClients(cfg.Clients),
	}
}

// Handler is the ordinary way to an answer, for those who ask without a network.
func (s *Server) Handler() *Handler { return s.handler }

// portTries bounds the search for a port that is free by UDP and by TCP where any port will do.
const portTries = 100

// Listen opens addr for UDP and TCP. Port 0 means any port that is free for both.
func (s *Server) Listen(addr string) error {
	for try := 1; ; try++ {
		pc, err := net.ListenPacket("udp", addr)
		if err != nil {
			return err
		}
		lis, err := net.Listen("tcp", pc.LocalAddr().String())
		if err == nil {
			conn, _ := pc.(*net.UDPConn) // what ListenPacket returns for udp
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

// socketBuffer is what may wait in the kernel while the workers are busy, in bytes.
const socketBuffer = 4 << 20

// setBuffers asks for room; less than asked for is no error.
func setBuffers(conn *net.UDPConn) {
	_ = conn.SetReadBuffer(socketBuffer)
	_ = conn.SetWriteBuffer(socketBuffer)
}

// Addrs are the addresses listened on, each for UDP and TCP.
func (s *Server) Addrs() []string {
	var addrs []string
	for _, conn := range s.udp {
		addrs = append(addrs, conn.LocalAddr().String())
	}
	return addrs
}

// Close closes what Listen opened, for those who never Run.
func (s *Server) Close() {
	for i := range s.udp {
		s.udp[i].Close()
		s.tcp[i].Close()
	}
	for _, lis := range s.tls {
		lis.Close()
	}
}

// Run answers until ctx is done. Questions that wait for others are then cut off.
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

// newFastPath returns a fast path for one worker, nil where there is to be none.
func (s *Server) newFastPath() *fastPath {
	if s.cfg.OrdinaryOnly {
		return nil
	}
	return &fastPath{
		names: s.cfg.Names, maxUDP: s.cfg.MaxUDP, most: s.cfg.maxRecords(), chases: s.cfg.Forward != nil,
		rotate: rand.Uint32(), // the first question of each connection would get the same records
	}
}

// handle asks the handler. A bug that only one packet brings to light must not end the service for all others.
func (s *Server) handle(q Query, w *worker) (reply []byte, later func(context.Context) []byte) {
	defer func() {
		if p := recover(); p != nil {
			w.panics.Add(1)
			s.cfg.Log.Error("handler panicked", "packet", fmt.Sprintf("%x", q.Packet), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			reply, later = nil, nil
		}
	}()
	return s.handler.Handle(q)
}

// waiting are the questions of one server loop that wait for somebody else.
type waiting struct{ wg sync.WaitGroup }

// start runs fn beside the loop unless too many wait already.
func (s *Server) start(w *waiting, fn func()) bool {
	select {
	case s.pending <- struct{}{}:
	default:
		return false
	}
	w.wg.Go(func() {
		defer func() { <-s.pending }()
		fn()
	})
	return true
}

// stats are the counters of all workers, summed when somebody looks.
type stats struct {
	mu      sync.Mutex
	workers []*worker
	retired worker // what workers that are gone have counted
}

// worker counts what one goroutine does. Nobody else writes to it, so counting costs next to nothing.
func (s *stats) worker() *worker {
	w := &worker{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers = append(s.workers, w)
	return w
}

// retire keeps what a worker counted when it goes.
func (s *stats) retire(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired.add(w)
	s.workers = slices.DeleteFunc(s.workers, func(other *worker) bool { return other == w })
}

// sum adds everything up.
func (s *stats) sum() *worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := &worker{}
	total.add(&s.retired)
	for _, w := range s.workers {
		total.add(w)
	}
	return total
}
