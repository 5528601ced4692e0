// Package index is what the endpoint controller knows of the registry, kept so
// that a change costs the services that it concerns and no others.
//
// Services are found by one label pair of their selector, pods by each of their
// labels and by their node: a pod that changes looks up the services of its own
// labels, and a service its pods, without a scan of either. The alternative,
// trying every selector of the namespace on every pod change, is what makes
// large namespaces slow.
//
// What the controller writes is noted at once ([Index.Wrote], [Index.Deleted]) and read instead of
// what the stream brought, so that a second sync does not write the same again. A note counts only
// until the stream has passed its revision: the answer to a write may come after the stream has
// brought the write and what others did to the object since. The invariant: an object here is
// never older than the last write that the controller knows of, and once the stream has come to
// its end, the index has what the stream has and no notes. Putting writes straight into what the
// stream brought is simpler, and makes an object that was deleted in between stay for ever.
package index
