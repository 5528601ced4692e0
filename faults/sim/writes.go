package sim

import (
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/e2e/churn/workload"
	"portolan.dev/services/object"
)

// drawWrites adds the writes of an actor. The pauses between them are random. Some are below 2 ms,
// so that several writes can share a commit.
func drawWrites(g *generator, actor int, length time.Duration) {
	a := workload.NewActor(g.random.Uint64(), actor, nodeNames)
	for at := firstWrite; at < length; {
		for _, step := range a.Next() {
			g.add(at, func(w *world) { w.write(step) }, "%s %s", step.Verb, object.KeyOf(step.Object))
			at += g.upTo(2 * time.Millisecond)
		}
		at += pick(g, g.upTo(3*time.Millisecond), g.upTo(80*time.Millisecond), g.upTo(500*time.Millisecond))
	}
}

// write adds a client's step to the next commit of the registry.
func (w *world) write(step workload.Step) {
	w.registry.Enqueue(step, func(err error) { w.log.Debug("write refused", "err", err) })
}

// relabelPods gives all pods the labels of one application, so that its services select all pods.
func (w *world) relabelPods(app int) {
	for _, o := range w.registry.Log.Objects() {
		if pod, ok := o.(*corev1.Pod); ok {
			changed := pod.CloneVT()
			changed.Metadata.Labels = workload.Application(app)
			w.write(workload.Step{Verb: workload.Update, Object: changed})
		}
	}
}

// changeTargetPorts changes the target ports of all services that have a selector and are not
// headless.
func (w *world) changeTargetPorts() {
	for _, o := range w.registry.Log.Objects() {
		svc, ok := o.(*corev1.Service)
		if !ok || len(svc.GetSpec().GetSelector()) == 0 || svc.GetSpec().GetClusterIp() == "None" {
			continue
		}
		changed := svc.CloneVT()
		for _, p := range changed.GetSpec().GetPorts() {
			other := workload.Ports[0] + workload.Ports[1] - p.GetTargetPort().GetNumber()
			p.TargetPort = &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: other}}
		}
		w.write(workload.Step{Verb: workload.Update, Object: changed})
	}
}
