// Package server answers the requests of Kubernetes' API.
//
// Reads of objects and lists, and all writes, are calls of the registry on behalf of the client. A read
// without a resource version has all changes that were written before it began, because it first asks the
// registry for the newest revision. Watches, and lists with the resource version 0, are answered from the
// cache. The cache has objects that the client may not read, so the server authorizes these requests itself,
// by the same table and the same limits of package access as the registry does.
//
// A watch costs little more than its writes to the network. An event is encoded once, with its frame, for
// all watches of one form, and the memory of the encoded forms is limited (watchcache). All events since the
// last write are written together, and the deadline of the writes is moved rarely. `make bench-kubeapi`
// compares it with a watch of the registry.
//
// The invariant: the answer to any request is the object, or a Status with the right code, and the memory
// of one request is limited. Limits apply to bodies, patches, concurrent requests and watches, and a watch
// has no queue.
package server
