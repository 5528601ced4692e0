// Package manifest reads and writes Kubernetes manifests, as YAML or JSON, without a Kubernetes
// cluster.
//
// A document is parsed into a tree with line numbers, checked against the types of Kubernetes, and
// converted into an object of core.v1 by services/kube. Writing goes the other way. The invariants
// are that reading and writing keep all values that both an object and a manifest can have, and that a
// warning names each value that is lost. Fields that Portolan has and Kubernetes lacks are
// annotations under portolan.dev.
//
// A kind that Kubernetes lacks needs no conversion: its documents have Kubernetes' metadata, and the
// other fields in the JSON mapping of the contract.
//
// The strict decoder walks the types of Kubernetes itself, because Kubernetes' own decoder reports
// neither line numbers nor all mistakes at once. YAML is read by the parser of Kubernetes' tools,
// so that the same text has the same meaning. This parser reports the position of malformed text
// poorly, so a second parser locates it. The second parser is used for nothing else.
//
// The package is in services because the command line and registrar read the same manifests. The tests
// that compare it with Kubernetes' libraries are in portolan/internal/kubecheck.
package manifest
