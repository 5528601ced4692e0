package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"portolan.dev/kubeapi/internal/failure"
	"portolan.dev/kubeapi/internal/upstream"
	"portolan.dev/kubeapi/internal/watchcache"
	"portolan.dev/services/access"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/audit"
	"portolan.dev/services/kit/health"
)

// Config is the configuration of a server. All fields but Identify and Audit must be given.
type Config struct {
	Registry *upstream.Client
	Cache    *watchcache.Cache
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	Health   *health.Registry
	// Identify returns the client of a request. It is nil without TLS. Then every client has all permissions.
	Identify func(*http.Request) (Client, error)
	// Audit is the audit log; nil: none.
	Audit *audit.Log
	// Version is the version of the program.
	Version string
	// MaxRequests is the number of requests, besides watches, that are served at a time.
	MaxRequests int
	// MaxWatches is the number of watches that may be open at a time, and MaxWatchesPerIdentity the number
	// of watches that one identity may have open.
	MaxWatches, MaxWatchesPerIdentity int
	// SendTimeout is the time that a part of an answer may wait for the client to read.
	SendTimeout time.Duration
}

// maxBody is the largest body of a request in bytes, as in Kubernetes.
const maxBody = 3 << 20

// Server answers requests.
type Server struct {
	cfg      Config
	methods  access.Table
	metrics  *metrics
	requests chan struct{} // holds a token for each request under way
	watches  *watchLimits
	version  []byte
	stopping chan struct{} // closed when watches have to end
}

// New returns a server.
func New(cfg Config) *Server {
	jsonpatch.AccumulatedCopySizeLimit = maxBody // bytes that the copy operations of a patch may add
	return &Server{
		cfg: cfg, methods: access.Methods(), metrics: newMetrics(cfg.Metrics), requests: make(chan struct{}, cfg.MaxRequests),
		watches: newWatchLimits(cfg.MaxWatches, cfg.MaxWatchesPerIdentity), version: versionDocument(cfg.Version),
		stopping: make(chan struct{}),
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req := &request{server: s, w: w, r: r, ctx: r.Context(), query: r.URL.Query(), begun: time.Now()}
	defer req.recover()
	err := req.serve()
	if err != nil {
		req.fail(err)
	}
	s.metrics.done(req)
	req.record(err)
}

// recover answers a request with an error if its handler panicked, unless the answer has begun.
func (req *request) recover() {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // it is a value, not an error that was returned
		panic(p)
	}
	req.server.cfg.Log.Error("handler panicked", "method", req.r.Method, "path", req.r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	err := apierr.Internal(fmt.Errorf("panic: %v", p))
	req.fail(err)
	req.server.metrics.done(req)
	req.record(err)
}

// serve answers a request. If it returns an error, no answer was sent, and the caller sends the error.
func (req *request) serve() error {
	if err := req.identify(); err != nil {
		return err
	}
	if handler, ok := documents()[strings.TrimSuffix(req.r.URL.Path, "/")]; ok {
		req.verb = "document"
		return handler(req)
	}
	if err := req.route(); err != nil {
		return err
	}
	if req.verb == verbWatch {
		return req.watch()
	}
	return req.server.limited(req.answer)
}

// limited calls do, or returns an error if too many requests are being served.
func (s *Server) limited(do func() error) error {
	select {
	case s.requests <- struct{}{}:
		defer func() { <-s.requests }()
		return do()
	default:
		return apierr.Throttled("max-requests", "too many requests are under way at this server: try again later", time.Second)
	}
}

// answer answers a request for a resource. Watches are not answered here.
func (req *request) answer() error {
	var cancel context.CancelFunc
	req.ctx, cancel = context.WithTimeout(req.ctx, requestTimeout)
	defer cancel()
	if req.resource.IsReview() {
		return req.review()
	}
	if err := req.authorizeAll(); err != nil {
		return err
	}
	return handlers[req.verb](req)
}

// requestTimeout is the time that a request, except a watch, may take.
const requestTimeout = 60 * time.Second

// handlers are the handlers of all verbs but watch.
var handlers = map[string]func(*request) error{
	verbGet: (*request).get, verbList: (*request).list, verbCreate: (*request).create, verbUpdate: (*request).update, verbPatch: (*request).patch,
	verbDelete: (*request).delete, verbDeleteCollection: (*request).deleteCollection,
}

// fail answers with the Status of an error.
func (req *request) fail(err error) {
	status := failure.StatusOf(err, req.resource, req.name)
	if status.Code >= http.StatusInternalServerError {
		req.server.cfg.Log.Debug("request failed", "method", req.r.Method, "path", req.r.URL.Path, "err", err)
	}
	req.sendStatus(status)
}

// Watches returns the number of open watches.
func (s *Server) Watches() int { return s.watches.count() }

// EndWatches ends all watches. It is called once, when the server stops.
func (s *Server) EndWatches() { close(s.stopping) }
