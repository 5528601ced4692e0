package changes

import (
	"github.com/nats-io/nats.go"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

// isPrivate reports whether the contents of an object must not be on the stream. These are objects of
// private kinds, and pods with an environment, a command, headers of a probe, or annotations of their
// owner, because each of these may hold a password. Every reader of the stream receives all changes, so
// the stream has only the fact of such a change. Followers read the contents from the log, within the
// limits of the registry.
//
// Two alternatives were rejected. With the node in the subject, a node agent could be limited to
// the pods of its node, but it could not distinguish the revisions of other pods from lost messages. With
// the private parts removed, the objects of followers would differ from the log.
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
