package changes

import (
	"github.com/nats-io/nats.go"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

// isPrivate reports whether an object has parts that not every reader of the stream may see. These
// are all objects of private kinds, and pods with an environment, a command, headers of a probe, or
// annotations of their owner, any of which may hold a password. NATS gives every reader of the stream all changes, so the stream has
// only the fact of such a change. The registry limits who reads its contents from the log.
//
// Two other shapes were rejected. With the node in the subject, a node agent could be limited to
// the pods of its node, but it could not tell the revisions of other pods from lost messages. With
// the private parts removed, followers would store something else than the log has.
func isPrivate(o object.Object) (private bool) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return kinds.Of(o).Private
	}
	for name := range pod.GetMetadata().GetAnnotations() {
		private = private || name != object.AnnotationWorkload
	}
	for _, containers := range [][]*corev1.Container{pod.GetSpec().GetContainers(), pod.GetSpec().GetInitContainers()} {
		for _, c := range containers {
			private = private || len(c.GetEnv())+len(c.GetCommand())+len(c.GetArgs())+len(c.GetReadinessProbe().GetHttpGet().GetHttpHeaders()) > 0
		}
	}
	return private
}

// isOfOtherNode reports whether a message without payload is about a pod of another node than the
// follower's.
func (f *Follower) isOfOtherNode(header nats.Header) bool {
	node := header[headerNode]
	return f.cfg.Node != "" && header.Get(headerElided) != "" && len(node) > 0 && node[0] != f.cfg.Node
}
