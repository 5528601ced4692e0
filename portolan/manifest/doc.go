// Package manifest reads and writes Kubernetes manifests, as YAML or JSON, without a Kubernetes.
//
// A document is parsed into a tree that knows the line of everything, held against the types of k8s.io/api, and converted into an object
// of core.v1; writing goes the other way. The invariant: whatever an object and a manifest can both say survives the way in and the way
// out, and whatever is lost is named in a warning. What Portolan has and Kubernetes has not travels in annotations under portolan.dev.
//
// The strict decoder is our own walk over the types of k8s.io/api, because theirs knows neither lines nor all mistakes at once. YAML is
// read by the parser that Kubernetes' tools use, so that the same text means the same; it is poor at saying where text is malformed, so
// then, and only then, a second parser is asked for the place.
package manifest
