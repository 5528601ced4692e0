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

	"portolan.dev/services/kit/obs"
)

const (
	// massHold is how many times the grace a node may be silent if more than half
	// of the nodes fell silent together with it.
	massHold = 4
	// beatsMissed is how many heartbeats an agent may miss at least: one with a
	// long interval has a longer grace.
	beatsMissed = 3
	// maxInterval bounds the interval that an agent is believed to have.
	maxInterval = 30 * time.Second
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
	held   prometheus.Gauge

	mu    sync.Mutex
	heard map[string]heartbeat // guarded by mu: the last one of each node
	last  heartbeat            // guarded by mu: the last one of all
	since time.Time            // guarded by mu: since when silence counts
	// mass has the nodes that were late together with more than half of all, and
	// have not been heard of since; guarded by mu.
	mass map[string]bool

	holding bool // of Lead: nodes are held

	writes obs.Outage // of the registry, when conditions are written
}

// heartbeat is when a node was heard, and when it is to be heard again.
type heartbeat struct {
	at       time.Time
	interval time.Duration
}

// New returns a watch that has heard nobody.
func New(cfg Config) *Watch {
	w := &Watch{
		writes: obs.Outage{Log: cfg.Log, Down: "conditions of nodes are not written, trying on", Up: "conditions of nodes are written again"},
		cfg:    cfg, nodes: registryv1.NewNodeServiceClient(cfg.Registry), heard: map[string]heartbeat{}, mass: map[string]bool{},
		silent: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "portolan_endpointctl_silent_nodes", Help: "Nodes whose agent has not been heard of for the grace; the leader's view.",
		}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "portolan_endpointctl_held_nodes",
			Help: "Silent nodes that are kept in service because more than half of all fell silent together; the leader's view.",
		}),
	}
	cfg.Metrics.MustRegister(w.silent, w.held)
	return w
}

// Heard notes a heartbeat.
func (w *Watch) Heard(beat *nodeagentv1.Heartbeat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.deaf(now) {
		w.since = now
	}
	interval := time.Duration(beat.GetIntervalSeconds() * float64(time.Second))
	w.last = heartbeat{now, min(max(interval, 0), maxInterval)}
	w.heard[beat.GetNode()] = w.last
	delete(w.mass, beat.GetNode())
}

// grace returns how long the node of a heartbeat may be silent.
func (w *Watch) grace(h heartbeat) time.Duration { return max(w.cfg.Grace, beatsMissed*h.interval) }

// deaf reports whether no heartbeat of any node has come for so long that the
// controller takes itself for cut off. That is less than the grace, so that the
// controller is deaf before any node counts as silent. The caller holds the lock.
func (w *Watch) deaf(now time.Time) bool { return now.Sub(w.last.at) > w.grace(w.last)/2 }

// Lead judges nodes until ctx is done. The context fences the writes.
func (w *Watch) Lead(ctx context.Context) {
	ticker := time.NewTicker(max(w.cfg.Grace/20, time.Millisecond))
	defer ticker.Stop()
	defer w.silent.Set(0)
	defer w.held.Set(0)
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
	late   // it should have been heard of: counts for a mass lapse only
	held   // silent, and so are many others
	silent // out of service
)

// judge returns the verdict on a node, and how long the node has been silent. The
// caller holds the lock, and has made sure that the controller is not deaf.
func (w *Watch) judge(name string, now time.Time) (verdict, time.Duration) {
	heard := w.heard[name]
	silence, grace := now.Sub(later(heard.at, w.since)), w.grace(heard)
	switch {
	case silence > grace:
		return silent, silence
	case silence > grace/2:
		return late, silence
	case heard.at.Before(w.since):
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

// judgement is the verdict on a node, and how long it has been silent.
type judgement struct {
	node    *corev1.Node
	verdict verdict
	silence time.Duration
}

// judgeNodes returns the verdicts on nodes that agents have registered; none if
// the controller is cut off.
func (w *Watch) judgeNodes(nodes []*corev1.Node, now time.Time) []judgement {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deaf(now) {
		return nil
	}
	var all []judgement
	var lapsing []string
	inService := 0
	for _, node := range nodes {
		if node.GetStatus().GetAgentVersion() == "" && node.GetStatus().GetProxyMode() == "" {
			continue
		}
		name := node.GetMetadata().GetName()
		v, silence := w.judge(name, now)
		all = append(all, judgement{node, v, silence})
		if !lapsed(node) {
			inService++
			if v == late || v == silent {
				lapsing = append(lapsing, name)
			}
		}
	}
	if 2*len(lapsing) > inService {
		for _, name := range lapsing {
			w.mass[name] = true
		}
	}
	for i := range all {
		w.hold(&all[i])
	}
	return all
}

// hold changes the verdict on a node that fell silent together with many others.
func (w *Watch) hold(j *judgement) {
	name := j.node.GetMetadata().GetName()
	if j.verdict == silent && w.mass[name] && !lapsed(j.node) && j.silence <= massHold*w.grace(w.heard[name]) {
		j.verdict = held
	}
}

func (w *Watch) judgeAll(ctx context.Context) {
	count := map[verdict]int{}
	for _, j := range w.judgeNodes(w.cfg.Nodes(), time.Now()) {
		count[j.verdict]++
		if want := wanted(j.node, j.verdict, j.silence); want != nil {
			w.write(ctx, j.node, want)
		}
	}
	w.noteHeld(count[held])
	w.silent.Set(float64(count[silent] + count[held]))
}

// noteHeld tells of the nodes that are held, with one line when that begins and
// one when it ends.
func (w *Watch) noteHeld(n int) {
	w.held.Set(float64(n))
	switch began := w.holding; {
	case n > 0 && !began:
		w.cfg.Log.Warn("more than half of the nodes fell silent together: they stay in service for now", "nodes", n,
			"at_most", massHold*w.cfg.Grace)
	case n == 0 && began:
		w.cfg.Log.Info("no silent node is held in service any more")
	}
	w.holding = n > 0
}

// lapsed reports whether a node is out of service because of its silence.
func lapsed(node *corev1.Node) bool {
	c := ready(node)
	return c.GetStatus() == corev1.ConditionStatus_CONDITION_STATUS_UNKNOWN && c.GetReason() == reasonSilent
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
	case v == alive && lapsed(node):
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
		w.writes.Failed(err, "node", name, "reason", want.GetReason())
		return
	}
	w.writes.Over()
	w.cfg.Log.Info("node's readiness changed", "node", name, "reason", want.GetReason())
}
