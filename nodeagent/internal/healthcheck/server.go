package healthcheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

// Options configure a Server.
type Options struct {
	// Healthy reports whether the node forwards at all. Required.
	Healthy func() bool
	// Report is called with an error if a port cannot be opened, and with nil once the error is
	// over. Required.
	Report func(service object.Name, port uint16, err error)
	// RetryEvery is the time between attempts to open ports. Default 10 s.
	RetryEvery time.Duration
}

// Server serves the health-check ports of a node. It is safe for concurrent use.
type Server struct {
	opts     Options
	draining atomic.Bool
	serving  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	addrs  []netip.Addr
	ports  map[object.Name]*servicePort
}

// servicePort is the port of one service.
type servicePort struct {
	service object.Name
	port    uint16
	local   atomic.Int64
	sockets map[netip.Addr]*socket
	failing bool
}

// New returns a server without ports.
func New(o Options) *Server {
	if o.RetryEvery == 0 {
		o.RetryEvery = 10 * time.Second
	}
	return &Server{opts: o, ports: map[object.Name]*servicePort{}}
}

// Run retries to open the ports that failed until ctx is done. It then closes all ports.
func (s *Server) Run(ctx context.Context) error {
	ticker := time.NewTicker(s.opts.RetryEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			s.close()
			return nil
		case <-ticker.C:
			s.retry()
		}
	}
}

// Drain makes every answer 503 while on is true.
func (s *Server) Drain(on bool) { s.draining.Store(on) }

// SetAddresses sets the addresses of the node on which the ports are open.
func (s *Server) SetAddresses(addrs []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(s.addrs, addrs) {
		return
	}
	s.addrs = slices.Clone(addrs)
	for _, c := range s.ports {
		s.listen(c)
	}
}

// Set opens or changes the port of a service. If want is nil, Set closes it.
func (s *Server) Set(service object.Name, want *plan.HealthCheck) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.ports[service]
	if c != nil && (want == nil || want.Port != c.port) {
		c.closeExcept(nil)
		if c.failing {
			s.opts.Report(service, c.port, nil)
		}
		delete(s.ports, service)
		c = nil
	}
	if want == nil || s.closed {
		return
	}
	if c == nil {
		c = &servicePort{service: service, port: want.Port, sockets: map[netip.Addr]*socket{}}
		s.ports[service] = c
		c.local.Store(int64(want.Local))
		s.listen(c)
		return
	}
	c.local.Store(int64(want.Local))
}

func (s *Server) retry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.ports {
		if c.failing {
			s.listen(c)
		}
	}
}

// listen makes the listeners of a check match the current addresses.
func (s *Server) listen(c *servicePort) {
	c.closeExcept(s.addrs)
	var errs []error
	for _, addr := range s.addrs {
		if c.sockets[addr] != nil {
			continue
		}
		lis, err := net.Listen("tcp", netip.AddrPortFrom(addr, c.port).String())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		srv := &http.Server{Handler: s.handler(c), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
		c.sockets[addr] = &socket{lis, srv}
		s.serving.Go(func() {
			srv.Serve(lis) //nolint:errcheck // always an error: it was closed
		})
	}
	err := errors.Join(errs...)
	if err != nil || c.failing {
		s.opts.Report(c.service, c.port, err)
	}
	c.failing = err != nil
}

func (c *servicePort) closeExcept(keep []netip.Addr) {
	for addr, k := range c.sockets {
		if !slices.Contains(keep, addr) {
			k.close()
			delete(c.sockets, addr)
		}
	}
}

// socket is one listener of a check with its HTTP server.
type socket struct {
	lis net.Listener
	srv *http.Server
}

// close frees the port at once. If only the server were closed before its goroutine has begun to
// serve, the listener would stay open until then, and opening the port again would fail.
func (k *socket) close() {
	k.lis.Close()
	k.srv.Close()
}

func (s *Server) close() {
	s.mu.Lock()
	s.closed = true
	for _, c := range s.ports {
		c.closeExcept(nil)
	}
	s.mu.Unlock()
	s.serving.Wait()
}

// checkResponse is the body of the answer to a load balancer.
type checkResponse struct {
	Service             serviceName `json:"service"`
	LocalEndpoints      int         `json:"localEndpoints"`
	ServiceProxyHealthy bool        `json:"serviceProxyHealthy"`
}

type serviceName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (s *Server) handler(c *servicePort) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a := checkResponse{
			Service:             serviceName(c.service),
			LocalEndpoints:      int(c.local.Load()),
			ServiceProxyHealthy: s.opts.Healthy() && !s.draining.Load(),
		}
		body, err := json.Marshal(a)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(a.LocalEndpoints))
		if a.LocalEndpoints == 0 || !a.ServiceProxyHealthy {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintf(w, "%s", body)
	})
}
