package nodewatch

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/proto/portolan/core/v1"
	nodeagentv1 "portolan.dev/proto/portolan/nodeagent/v1"
	registryv1 "portolan.dev/proto/portolan/registry/v1"
)

// What the condition says.
const (
	conditionReady = "Ready"
	reasonSilent   = "NodeStatusUnknown"
	reasonBack     = "HeartbeatsReturned"
)

// Config is what a watch needs.
type Config struct {
	Registry grpc.ClientConnInterface
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	// Nodes returns all nodes.
	Nodes func() []*corev1.Node
	// Grace is how long a node may be silent.
	Grace time.Duration
}

// Watch notes heartbeats and judges nodes.
type Watch struct {
	cfg    Config
	nodes  registryv1.NodeServiceClient
	silent prometheus.Gauge

	mu    sync.Mutex
	heard map[string]time.Time // guarded by mu: last heartbeat of each node
	last  time.Time            // guarded by mu: last heartbeat of anybody
	since time.Time            // guarded by mu: since when silence counts
}

// New returns a watch that has heard nobody.
func New(cfg Config) *Watch {
	w := &Watch{
		cfg: cfg, nodes: registryv1.NewNodeServiceClient(cfg.Registry), heard: map[string]time.Time{},
		silent: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "portolan_endpointctl_silent_nodes", Help: "Nodes whose agent has not been heard of for the grace; the leader's view.",
		}),
	}
	cfg.Metrics.MustRegister(w.silent)
	return w
}

// Heard notes a heartbeat.
func (w *Watch) Heard(beat *nodeagentv1.Heartbeat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if now.Sub(w.last) > w.deaf() {
		w.since = now
	}
	w.last = now
	w.heard[beat.GetNode()] = now
}

// deaf is how long a controller may hear nobody before it takes itself for cut
// off. It is shorter than the grace, so that nobody is judged in between.
func (w *Watch) deaf() time.Duration { return w.cfg.Grace / 2 }

// Lead judges nodes until ctx is done. The context fences the writes.
func (w *Watch) Lead(ctx context.Context) {
	ticker := time.NewTicker(max(w.cfg.Grace/20, time.Millisecond))
	defer ticker.Stop()
	defer w.silent.Set(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.judgeAll(ctx)
		}
	}
}

// verdict on a node.
type verdict int

const (
	unclear verdict = iota // say nothing
	alive
	silent
)

// judge says whether a node is heard of.
func (w *Watch) judge(name string, now time.Time) (verdict, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.last) > w.deaf() {
		return unclear, 0
	}
	heard := w.heard[name]
	silence := now.Sub(later(heard, w.since))
	switch {
	case silence > w.cfg.Grace:
		return silent, silence
	case heard.Before(w.since):
		return unclear, silence // not heard of since silence counts
	default:
		return alive, silence
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (w *Watch) judgeAll(ctx context.Context) {
	count := 0
	for _, node := range w.cfg.Nodes() {
		if node.GetStatus().GetAgentVersion() == "" && node.GetStatus().GetProxyMode() == "" {
			continue
		}
		name := node.GetMetadata().GetName()
		v, silence := w.judge(name, time.Now())
		if v == silent {
			count++
		}
		if want := wanted(node, v, silence); want != nil {
			w.write(ctx, node, want)
		}
	}
	w.silent.Set(float64(count))
}

// wanted returns the condition that a node should have instead of the one it
// has, nil if that may stay.
func wanted(node *corev1.Node, v verdict, silence time.Duration) *corev1.Condition {
	have := ready(node)
	switch {
	case v == silent && have.GetStatus() != corev1.ConditionStatus_CONDITION_STATUS_UNKNOWN:
		return &corev1.Condition{
			Status: corev1.ConditionStatus_CONDITION_STATUS_UNKNOWN, Reason: reasonSilent,
			Message: fmt.Sprintf("no heartbeat of the node agent for %s", silence.Round(time.Second)),
		}
	case v == alive && have.GetStatus() == corev1.ConditionStatus_CONDITION_STATUS_UNKNOWN && have.GetReason() == reasonSilent:
		return &corev1.Condition{
			Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE, Reason: reasonBack, Message: "the node agent is heard of again",
		}
	default:
		return nil
	}
}

func ready(node *corev1.Node) *corev1.Condition {
	for _, c := range node.GetStatus().GetConditions() {
		if c.GetType() == conditionReady {
			return c
		}
	}
	return nil
}

// write changes the condition. Where it fails, the next judgement tries again
// on what the stream has brought meanwhile.
func (w *Watch) write(ctx context.Context, node *corev1.Node, want *corev1.Condition) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	want.Type, want.LastTransitionTime = conditionReady, timestamppb.Now()
	next := node.CloneVT()
	conditions := []*corev1.Condition{want}
	for _, c := range next.GetStatus().GetConditions() {
		if c.GetType() != conditionReady {
			conditions = append(conditions, c)
		}
	}
	next.Status.Conditions = conditions
	name := node.GetMetadata().GetName()
	if _, err := w.nodes.UpdateNodeStatus(ctx, &registryv1.UpdateNodeStatusRequest{Node: next}); err != nil {
		w.cfg.Log.Warn("node's condition not written", "node", name, "reason", want.GetReason(), "err", err)
		return
	}
	w.cfg.Log.Info("node's readiness changed", "node", name, "reason", want.GetReason())
}
