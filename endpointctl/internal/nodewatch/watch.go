package nodewatch

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"

	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/object"
)

const (
	// massHold is the number of graces for which a node may be silent if more than half of the
	// nodes fell silent together with it.
	massHold = 4
	// maxMissedBeats is the number of heartbeats that any agent may miss. An agent with a long
	// interval therefore has a longer grace.
	maxMissedBeats = 3
	// maxInterval bounds the interval in an agent's heartbeats.
	maxInterval = 30 * time.Second
)

// Reasons of the condition.
const (
	reasonSilent = "NodeStatusUnknown"
	reasonBack   = "HeartbeatsReturned"
)

// Config is the configuration of a watch.
type Config struct {
	Registry grpc.ClientConnInterface
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	// Guard catches panics of the work for one node.
	Guard *guard.Guard
	// Nodes returns all nodes.
	Nodes func() []*corev1.Node
	// Grace is the time for which a node may be silent.
	Grace time.Duration
}

// Watch records heartbeats and sets the Ready conditions of nodes.
type Watch struct {
	cfg    Config
	nodes  registryv1.NodeServiceClient
	silent prometheus.Gauge
	held   prometheus.Gauge

	mu            sync.Mutex
	heartbeats    map[string]heartbeat // guarded by mu: the last heartbeat of each node
	lastHeartbeat heartbeat            // guarded by mu: the last heartbeat of any node
	silenceSince  time.Time            // guarded by mu: when silence began to count
	// massLapse holds the nodes that were late together with more than half of all nodes and have
	// not been heard since. Guarded by mu.
	massLapse map[string]bool

	holding bool // used by Lead only: some nodes are held

	writes obs.Outage // outages of the registry when conditions are written
}

// heartbeat is the time of a heartbeat and the interval to the next one.
type heartbeat struct {
	at       time.Time
	interval time.Duration
}

// New returns a watch without any heartbeat.
func New(cfg Config) *Watch {
	w := &Watch{
		writes: obs.Outage{Log: cfg.Log, Down: "conditions of nodes are not written, still trying", Up: "conditions of nodes are written again"},
		cfg:    cfg, nodes: registryv1.NewNodeServiceClient(cfg.Registry), heartbeats: map[string]heartbeat{}, massLapse: map[string]bool{},
		silent: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "portolan_endpointctl_silent_nodes", Help: "Nodes without heartbeats for longer than the grace period, according to the leader.",
		}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "portolan_endpointctl_held_nodes",
			Help: "Silent nodes whose endpoints stay ready because more than half of all nodes fell silent at once, according to the leader.",
		}),
	}
	cfg.Metrics.MustRegister(w.silent, w.held)
	return w
}

// RecordHeartbeat records a heartbeat.
func (w *Watch) RecordHeartbeat(beat *nodeagentv1.Heartbeat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.isCutOff(now) {
		w.silenceSince = now
	}
	interval := time.Duration(beat.GetIntervalSeconds() * float64(time.Second))
	w.lastHeartbeat = heartbeat{now, min(max(interval, 0), maxInterval)}
	w.heartbeats[beat.GetNode()] = w.lastHeartbeat
	delete(w.massLapse, beat.GetNode())
}

// grace returns the time for which the node of a heartbeat may be silent.
func (w *Watch) grace(h heartbeat) time.Duration { return max(w.cfg.Grace, maxMissedBeats*h.interval) }

// isCutOff reports whether the controller itself counts as cut off, because it has received no heartbeat of
// any node for some time. That time is less than the grace, so the controller counts as cut off before any
// node counts as silent. The caller holds the lock.
func (w *Watch) isCutOff(now time.Time) bool {
	return now.Sub(w.lastHeartbeat.at) > w.grace(w.lastHeartbeat)/2
}

// Lead sets the conditions of nodes until ctx is done. The context fences the writes.
func (w *Watch) Lead(ctx context.Context) {
	ticker := time.NewTicker(max(w.cfg.Grace/20, time.Millisecond))
	defer ticker.Stop()
	defer w.silent.Set(0)
	defer w.held.Set(0)
	defer w.cfg.Guard.Forget(stepReady, func(guard.Object) bool { return true })
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.reconcile(ctx)
		}
	}
}

// nodeState is the state of a node by its heartbeats.
type nodeState int

const (
	unknownState nodeState = iota // no heartbeat since silence counts
	alive
	overdue // a heartbeat is overdue: counts for a mass lapse only
	held    // silent, together with many others
	silent  // out of service
)

// stateOf returns the state of a node and the time for which it has been silent. The caller holds
// the lock, and has checked that the controller is not cut off.
func (w *Watch) stateOf(name string, now time.Time) (nodeState, time.Duration) {
	heard := w.heartbeats[name]
	silence, grace := now.Sub(latest(heard.at, w.silenceSince)), w.grace(heard)
	switch {
	case silence > grace:
		return silent, silence
	case silence > grace/2:
		return overdue, silence
	case heard.at.Before(w.silenceSince):
		return unknownState, silence // no heartbeat since silence counts
	default:
		return alive, silence
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// nodeStatus is the state of a node, with the time for which it has been silent.
type nodeStatus struct {
	node    *corev1.Node
	state   nodeState
	silence time.Duration
}

// statusesOf returns the states of the nodes that agents have registered. It returns none if the
// controller is cut off.
func (w *Watch) statusesOf(nodes []*corev1.Node, now time.Time) []nodeStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isCutOff(now) {
		return nil
	}
	var all []nodeStatus
	var lapsing []string
	inService := 0
	for _, node := range nodes {
		if node.GetStatus().GetAgentVersion() == "" && node.GetStatus().GetProxyMode() == "" {
			continue
		}
		name := node.GetMetadata().GetName()
		v, silence := w.stateOf(name, now)
		all = append(all, nodeStatus{node, v, silence})
		if !isMarkedSilent(node) {
			inService++
			if v == overdue || v == silent {
				lapsing = append(lapsing, name)
			}
		}
	}
	if 2*len(lapsing) > inService {
		for _, name := range lapsing {
			w.massLapse[name] = true
		}
	}
	for i := range all {
		w.delayMassLapse(&all[i])
	}
	return all
}

// delayMassLapse changes the state of a node that fell silent together with many others.
func (w *Watch) delayMassLapse(j *nodeStatus) {
	name := j.node.GetMetadata().GetName()
	if j.state == silent && w.massLapse[name] && !isMarkedSilent(j.node) && j.silence <= massHold*w.grace(w.heartbeats[name]) {
		j.state = held
	}
}

// stepReady is the step that sets the Ready condition of a node.
const stepReady = "ready"

func (w *Watch) reconcile(ctx context.Context) {
	count := map[nodeState]int{}
	nodes := w.cfg.Nodes()
	w.cfg.Guard.Forget(stepReady, func(o guard.Object) bool {
		return !slices.ContainsFunc(nodes, func(node *corev1.Node) bool { return node.GetMetadata().GetName() == o.Name })
	})
	for _, j := range w.statusesOf(nodes, time.Now()) {
		count[j.state]++
		w.cfg.Guard.Run(stepReady, guard.Object{Kind: "Node", Name: j.node.GetMetadata().GetName()}, func() {
			if want := wantedCondition(j.node, j.state, j.silence); want != nil {
				w.write(ctx, j.node, want)
			}
		})
	}
	w.recordHeld(count[held])
	w.silent.Set(float64(count[silent] + count[held]))
}

// recordHeld sets the metric of held nodes, and logs when the first node is held and when none is
// held any more.
func (w *Watch) recordHeld(n int) {
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

// isMarkedSilent reports whether a node is out of service because it is silent.
func isMarkedSilent(node *corev1.Node) bool {
	c := ready(node)
	return c.GetStatus() == corev1.ConditionStatus_CONDITION_STATUS_UNKNOWN && c.GetReason() == reasonSilent
}

// wantedCondition returns the condition that must replace the node's current one, or nil if that
// may stay.
func wantedCondition(node *corev1.Node, v nodeState, silence time.Duration) *corev1.Condition {
	have := ready(node)
	switch {
	case v == silent && have.GetStatus() != corev1.ConditionStatus_CONDITION_STATUS_UNKNOWN:
		return &corev1.Condition{
			Status: corev1.ConditionStatus_CONDITION_STATUS_UNKNOWN, Reason: reasonSilent,
			Message: fmt.Sprintf("no heartbeat of the node agent for %s", silence.Round(time.Second)),
		}
	case v == alive && isMarkedSilent(node):
		return &corev1.Condition{
			Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE, Reason: reasonBack, Message: "the node agent is heard of again",
		}
	default:
		return nil
	}
}

func ready(node *corev1.Node) *corev1.Condition {
	return object.Condition(node.GetStatus().GetConditions(), object.ConditionReady)
}

// write writes the condition. If it fails, the next round tries again with the objects that the
// stream has delivered by then.
func (w *Watch) write(ctx context.Context, node *corev1.Node, want *corev1.Condition) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	want.Type, want.LastTransitionTime = object.ConditionReady, timestamppb.Now()
	next := node.CloneVT()
	conditions := []*corev1.Condition{want}
	for _, c := range next.GetStatus().GetConditions() {
		if c.GetType() != object.ConditionReady {
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
