// Package balancer has the table of the annotations that shape the load balancer of a service: their
// names, the older names that clouds gave them, their values, defaults and effects, and whether the
// edge or a provider acts on them.
//
// [Parse] reads the annotations of a service into [Settings]. The invariant is that it always returns
// settings that can be used, together with a [Problem] for everything that is not as the annotations
// ask for it. A value that is not valid leaves the default, unless the default is less safe: a
// certificate that is not valid still means that the port speaks TLS, with which every handshake fails.
//
// Portolan's own name of an annotation decides if it is there. The names of clouds are read so that
// their manifests work as they are, with the ranges that the clouds allow. Where Portolan allows more,
// only its own name takes it.
//
// Package spec imports this package and not the reverse, because admission has to ask for the problems
// of a service, and everything that this package needs of a service is in the message itself. lbctl and
// the edge import it too. It knows neither of them: it is the contract between the writer of a service
// and whatever serves it. The settings are annotations and no fields, because manifests stay valid in
// Kubernetes then, and because the manifests of clouds have them there.
package balancer
