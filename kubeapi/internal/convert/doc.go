// Package convert converts objects of the contract to the types of Kubernetes, and back.
//
// The invariant is that nothing of an object of the contract is lost on the way there and back, except
// managed fields, which the registry keeps itself. Fields that Portolan has and Kubernetes lacks are
// annotations under portolan.dev, with the names that manifests of the command line have. An object
// with such an annotation sets the field, and the annotation itself is not stored.
//
// The other way loses what Portolan lacks, such as the volumes of a pod. Lost names these fields, so
// that the client can be warned.
//
// The command line has conversions of its own (services/manifest), with types of its own,
// because the libraries of Kubernetes would triple its size and it reports mistakes by line.
package convert
