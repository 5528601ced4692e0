// Package index holds the endpoint controller's view of the registry, indexed so that a change
// costs work only for the services that it affects.
//
// Services are indexed by one label pair of their selector, pods by each of their labels and by
// their node. A changed pod looks up the services of its own labels, and a service looks up its
// pods; neither scans all objects. The alternative, to try every selector of the namespace on every
// change of a pod, is slow in large namespaces.
//
// The pods of each service are kept as an ordered list, so that reading a service copies a list and
// neither selects nor sorts. The list costs 8 bytes for each pod of a service.
//
// The controller's own writes are recorded at once ([Index.Wrote], [Index.Deleted]) and read
// instead of the streamed objects, so that a second sync does not repeat a write. A record is used
// until the stream has passed its revision, because the response to a write may arrive after the
// stream has delivered the write and later changes of the object by others. The invariant is that
// an object in the index is never older than the last write that the controller knows of. Once the
// stream has caught up, the index equals the stream and has no records. A simpler design would put
// writes straight into the streamed objects, but an object that was deleted in between would then
// stay forever.
package index
