package nodestatus

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/healthcheck"
)

// autoscalerTaint is on nodes that an autoscaler is about to remove.
const autoscalerTaint = "ToBeDeletedByClusterAutoscaler"

// HealthzOptions are the state that the health endpoints report. All fields are required.
type HealthzOptions struct {
	ProxyMode string
	Metrics   prometheus.Registerer
	// Healthy reports whether changes reach the data plane.
	Healthy func() bool
	// Updated returns when they last did.
	Updated func() time.Time
	// Draining reports whether load balancers are to leave this node.
	Draining func() bool
	// Node returns the node's object; nil: it is not known.
	Node func() *corev1.Node
}

// Healthz serves the health endpoints of the node.
type Healthz struct {
	opts    HealthzOptions
	answers *prometheus.CounterVec
}

// NewHealthz returns the health endpoints of the node.
func NewHealthz(opts HealthzOptions) *Healthz {
	h := &Healthz{opts: opts, answers: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "portolan_nodeagent_healthz_total", Help: "Answers of the node's health endpoints, by path and code.",
	}, []string{"path", "code"})}
	opts.Metrics.MustRegister(h.answers)
	return h
}

// Serve answers load balancers and supervisors until ctx is done.
func (h *Healthz) Serve(ctx context.Context, lis net.Listener) error {
	handler := healthcheck.NodeHandler(h.opts.ProxyMode, h.state, func(path string, code int) {
		h.answers.WithLabelValues(path, strconv.Itoa(code)).Inc()
	})
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { srv.Close() })()
	if err := srv.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (h *Healthz) state() healthcheck.Node {
	return healthcheck.Node{
		Healthy:  h.opts.Healthy(),
		Eligible: !h.opts.Draining() && !leaving(h.opts.Node()),
		Updated:  h.opts.Updated(),
	}
}

// leaving reports whether a node is being deleted. An unknown node is not.
func leaving(n *corev1.Node) bool {
	return n.GetMetadata().GetDeletionTimestamp() != nil ||
		slices.ContainsFunc(n.GetSpec().GetTaints(), func(t *corev1.Taint) bool { return t.GetKey() == autoscalerTaint })
}
