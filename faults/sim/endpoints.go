package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/endpointctl"
	"portolan.dev/faults/sim/registry"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/portolan/e2e/churn/workload"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/object"
)

// endpointsManagedBy is the label of Endpoints that a controller has created. Manual ones lack it.
const endpointsManagedBy = "endpoints.kubernetes.io/managed-by"

// replicaNames are the names of the endpoint controllers.
var replicaNames = []string{"endpointctl-a", "endpointctl-b"}

// endpoints simulates two endpoint controllers, while clients create, update and delete services
// and pods. At rest the slices and Endpoints must be those that package model derives from the
// services and pods. Only the leading controller may have written them.
var endpoints = scenario{draw: drawEndpoints, run: runEndpoints}

// sharded is endpoints with services that are divided into shards. The holder of a shard may write only
// its services.
var sharded = scenario{draw: drawEndpoints, run: func(w *world, events []Event) error {
	w.shards = 3
	return runEndpoints(w, events)
}}

// moves is endpoints with one more check: an endpoint that moves from slice to slice must be in a
// slice at every revision.
var moves = scenario{draw: drawMoves, run: func(w *world, events []Event) error {
	if err := runEndpoints(w, events); err != nil {
		return err
	}
	histories := w.registry.Histories()
	if len(histories) > 1 {
		return nil // restoring a backup may remove and add endpoints
	}
	return errors.Join(interruptions(histories[0])...)
}}

// leaseDuration is the shortest permitted duration of a lease, so that leaders change often.
const leaseDuration = time.Second

func drawEndpoints(g *generator) {
	length := 300*time.Millisecond + g.upTo(5*time.Second)
	for n := range 1 + g.random.IntN(2) {
		drawWrites(g, n, length)
	}
	if g.chance(25) {
		return // no faults
	}
	for range 1 + g.random.IntN(4) {
		drawEndpointFault(g, g.within(length), pick(g, replicaNames...))
	}
}

// drawMoves generates services with many endpoints and changing ports, because then endpoints move
// from slice to slice.
func drawMoves(g *generator) {
	drawEndpoints(g)
	at := firstWrite
	for range 1 + g.random.IntN(3) {
		app := g.random.IntN(workload.Applications)
		at += g.upTo(500 * time.Millisecond)
		g.add(at, func(w *world) { w.relabelPods(app) }, "all pods get the labels of application %d", app)
		for range 1 + g.random.IntN(4) {
			at += g.upTo(500 * time.Millisecond)
			g.add(at, (*world).changeTargetPorts, "all services change their target ports")
		}
	}
}

func drawEndpointFault(g *generator, at time.Duration, name string) {
	switch g.random.IntN(10) {
	case 0, 1, 2:
		drawImpairment(g, at, replicaNames)
	case 3, 4:
		drawStall(g, at, name)
	case 5, 6:
		drawNATSFault(g, at, replicaNames)
	case 7:
		drawLogFault(g, at)
	default:
		drawRestart(g, at, name, func(w *world) { startReplica(w, name) })
	}
}

func runEndpoints(w *world, events []Event) error {
	registerNodes(w)
	startAll := func() {
		for _, name := range replicaNames {
			startReplica(w, name)
		}
	}
	startAll()
	w.play(events)
	startAll()
	if err := w.waitUntilConsistent(2*time.Minute, func() string { return endpointDifferences(w.registry) }); err != nil {
		return err
	}
	if violations := w.registry.Violations(); len(violations) > 0 {
		return fmt.Errorf("%q", violations)
	}
	return nil
}

// nodeNames are the names of the nodes.
var nodeNames = []string{"n1", "n2"}

// registerNodes creates the nodes that the registry lacks, as their agents do. Pods of unregistered
// nodes are not endpoints.
func registerNodes(w *world) {
	for _, name := range nodeNames {
		if node := readyNode(name); w.registry.Log.Get(object.KeyOf(node)) == nil {
			w.registry.Put(node)
		}
	}
}

func readyNode(name string) *corev1.Node {
	return &corev1.Node{
		Metadata: &corev1.ObjectMeta{Name: name},
		Status: &corev1.NodeStatus{AgentVersion: "v1", Conditions: []*corev1.Condition{
			{Type: "Ready", Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE},
		}},
	}
}

func startReplica(w *world, name string) {
	w.start(name, func(ctx context.Context, host app.Host) (app.Daemon, error) {
		var cfg endpointctl.Config
		config.Defaults(&cfg)
		cfg.Identity, cfg.NodeGrace, cfg.Workers, cfg.LeaseDuration = name, 0, 4, leaseDuration
		cfg.MaxPerSlice = 3 // so that services have several slices
		cfg.Shards = max(w.shards, 1)
		return endpointctl.New(ctx, cfg, host)
	})
}

// endpointDifferences describes the differences between the slices and Endpoints of the controllers and the
// slices and Endpoints that package model expects.
func endpointDifferences(r *registry.Registry) string {
	objects, slices, legacy := model.New(), model.Lines{}, model.Lines{}
	for _, o := range r.Log.Objects() {
		switch o := o.(type) {
		case *corev1.Service, *corev1.Pod:
			objects.Put(o)
		case *corev1.EndpointSlice:
			if o.GetMetadata().GetLabels()[object.LabelManagedBy] != "" {
				addSlice(slices, o)
			}
		case *corev1.Endpoints:
			if o.GetMetadata().GetLabels()[endpointsManagedBy] != "" {
				addLegacy(legacy, o)
			}
		}
	}
	return difference("slices", objects.Slices(), slices) + difference("Endpoints", objects.Legacy(), legacy)
}
