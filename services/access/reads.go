package access

import (
	"context"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// ReadLimit reports whether a caller may read an object. nil allows all objects.
type ReadLimit func(o object.Object) bool

// Allows reports whether the limit allows an object.
func (l ReadLimit) Allows(o object.Object) bool { return l == nil || l(o) }

// ReadLimitOf returns the limit of the caller's role for every way to read objects: Get, List,
// Watch, and the snapshots and the log of the change stream. An object beyond the limit does not
// exist for the caller. ReadLimitOf returns nil if there is no TLS.
func ReadLimitOf(ctx context.Context) ReadLimit {
	id, err := identity.Caller(ctx)
	switch {
	case err != nil || id.Role == identity.Operator && !isBound(id):
		return nil
	case id.Role == identity.Operator:
		return func(o object.Object) bool { return o.GetMetadata().GetNamespace() == id.Namespace }
	case id.Role == identity.Workload:
		return func(o object.Object) bool { return notOwn(id, o) == "" }
	case id.Role == identity.Registrar:
		return func(o object.Object) bool { return registrarReads(id, o) }
	case id.Role == identity.NodeAgent:
		return func(o object.Object) bool { return agentReads(id.Name, o) }
	case id.Role == identity.Edge:
		return edgeReads
	case id.Role == identity.KubeAPI:
		return kubeAPIReads
	case isBound(id):
		return func(o object.Object) bool {
			return o.GetMetadata().GetNamespace() == id.Namespace && !kinds.Of(o).Private
		}
	}
	return func(o object.Object) bool { return !kinds.Of(o).Private }
}

// agentReads reports whether the agent of a node may read an object.
func agentReads(node string, o object.Object) bool {
	switch o := o.(type) {
	case *corev1.Service, *corev1.EndpointSlice, *corev1.Revocation: // the agent's API refuses revoked certificates
		return true
	case *corev1.Pod:
		return o.GetSpec().GetNodeName() == node
	case *corev1.Node:
		return o.GetMetadata().GetName() == node
	}
	return false
}

// kubeAPIReads reports whether kubeapi may read an object. It may read Tokens, although the kind is private,
// because it compares their hashes with the tokens of its clients.
func kubeAPIReads(o object.Object) bool {
	kind := kinds.Of(o)
	return !kind.Private || kind.Name == "Token"
}

// edgeReads reports whether an edge may read an object. It reads Secrets only if they are certificates
// with keys, and in all namespaces, because any edge may serve any service.
func edgeReads(o object.Object) bool {
	switch o := o.(type) {
	case *corev1.Service, *corev1.EndpointSlice, *corev1.Node, *corev1.Revocation:
		return true
	case *corev1.Secret:
		return o.GetType() == spec.SecretTypeTLS
	}
	return false
}
