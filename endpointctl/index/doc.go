// Package index is what the endpoint controller knows of the registry, kept so
// that a change costs the services that it concerns and no others.
//
// Services are found by one label pair of their selector, pods by each of their
// labels and by their node: a pod that changes looks up the services of its own
// labels, and a service its pods, without a scan of either. The alternative,
// trying every selector of the namespace on every pod change, is what makes
// large namespaces slow.
//
// What the controller writes is put in at once ([Index.Wrote],
// [Index.Deleted]), before it comes back on the change stream. The invariant: an
// object here is never older than the last write that the controller knows of,
// so that a second sync does not write the same again.
package index
