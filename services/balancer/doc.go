// Package balancer has the table of the annotations that shape the load balancer of a service: their
// names, the older names that clouds gave them, their values, defaults and effects, and whether the
// edge or a provider acts on them.
//
// [Parse] reads the annotations of a service into [Settings]. The invariant is that it always returns
// usable settings, together with a [Problem] for each annotation that they do not follow. The default
// replaces an invalid value, unless the default is less safe: with an invalid certificate the port still
// speaks TLS, and every handshake fails.
//
// If a service has both Portolan's name and a cloud's name of an annotation, Portolan's name decides. The
// names of clouds are read so that manifests for these clouds work unchanged. Their values have the ranges
// that the clouds allow. If Portolan allows more values, only its own name accepts them.
//
// Package spec imports this package and not the reverse, because admission reports the problems of a
// service, and this package needs only the message of the service. lbctl and the edge import it too. This
// package does not depend on them: it is the contract between the writer of a service and the load
// balancers. The settings are annotations and not fields, so that manifests stay valid in Kubernetes, and
// because manifests for clouds have them as annotations.
package balancer
