package healthcheck

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "portolan.dev/api/core/v1"
)

// autoscalerTaint is on nodes that an autoscaler is about to remove.
const autoscalerTaint = "ToBeDeletedByClusterAutoscaler"

// NodeOptions are the state of the node that a NodeServer reports. All fields are required.
type NodeOptions struct {
	ProxyMode string
	Metrics   prometheus.Registerer
	// Healthy reports whether changes reach the data plane.
	Healthy func() bool
	// Updated returns when the data plane last matched the plan.
	Updated func() time.Time
	// Draining reports whether load balancers are to leave this node.
	Draining func() bool
	// Node returns the node's object, or nil if it is unknown.
	Node func() *corev1.Node
}

// NodeServer serves the health of the node, for load balancers that send traffic to any node and
// for supervisors that restart agents.
type NodeServer struct {
	opts      NodeOptions
	responses *prometheus.CounterVec
}

// NewNodeServer returns a server of the node's health.
func NewNodeServer(opts NodeOptions) *NodeServer {
	s := &NodeServer{opts: opts, responses: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "portolan_nodeagent_healthz_total", Help: "Answers of the node's health endpoints, by path and code.",
	}, []string{"path", "code"})}
	opts.Metrics.MustRegister(s.responses)
	return s
}

// Serve serves until ctx is done.
func (s *NodeServer) Serve(ctx context.Context, lis net.Listener) error {
	srv := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { srv.Close() })()
	if err := srv.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Handler returns the handler of /proxyMode, the name of the mode as text, and of /healthz and
// /livez with the meaning that they have on a Kubernetes node. Both return 503 if changes have not
// reached the data plane for too long. /healthz also returns 503 if the node is being deleted or
// draining, so that load balancers avoid the node while its agent is not restarted.
func (s *NodeServer) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/proxyMode", s.proxyMode)
	mux.HandleFunc("/healthz", s.healthz)
	mux.HandleFunc("/livez", s.livez)
	return mux
}

func (s *NodeServer) proxyMode(w http.ResponseWriter, _ *http.Request) {
	s.count("/proxyMode", http.StatusOK)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	io.WriteString(w, s.opts.ProxyMode) //nolint:errcheck // the client has closed the connection
}

func (s *NodeServer) healthz(w http.ResponseWriter, _ *http.Request) {
	healthy, eligible := s.opts.Healthy(), !s.opts.Draining() && !leaving(s.opts.Node())
	s.respond(w, "/healthz", healthy && eligible, s.response(healthy, &eligible))
}

func (s *NodeServer) livez(w http.ResponseWriter, _ *http.Request) {
	healthy := s.opts.Healthy()
	s.respond(w, "/livez", healthy, s.response(healthy, nil))
}

// leaving reports whether a node is being deleted. An unknown node is not.
func leaving(n *corev1.Node) bool {
	return n.GetMetadata().GetDeletionTimestamp() != nil ||
		slices.ContainsFunc(n.GetSpec().GetTaints(), func(t *corev1.Taint) bool { return t.GetKey() == autoscalerTaint })
}

// nodeResponse has the same fields as kube-proxy's response.
type nodeResponse struct {
	LastUpdated  time.Time `json:"lastUpdated"`
	CurrentTime  time.Time `json:"currentTime"`
	NodeEligible *bool     `json:"nodeEligible,omitempty"`
}

func (s *NodeServer) response(healthy bool, eligible *bool) nodeResponse {
	r := nodeResponse{LastUpdated: s.opts.Updated(), CurrentTime: time.Now(), NodeEligible: eligible}
	if healthy { // no change is pending, so the state in force is current
		r.LastUpdated = r.CurrentTime
	}
	return r
}

// respond writes a response: 200 if ok is true, and 503 otherwise.
func (s *NodeServer) respond(w http.ResponseWriter, path string, ok bool, r nodeResponse) {
	code := http.StatusOK
	if !ok {
		code = http.StatusServiceUnavailable
	}
	s.count(path, code)
	body, err := json.Marshal(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	w.Write(body) //nolint:errcheck // the client has closed the connection
}

func (s *NodeServer) count(path string, code int) {
	s.responses.WithLabelValues(path, strconv.Itoa(code)).Inc()
}
