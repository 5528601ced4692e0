// Package server answers the requests of Kubernetes' API.
//
// Reads of objects and lists, and all writes, are calls of the registry on behalf of the client. A read
// without a resource version has everything that was written before it began, because it first asks the
// store for its newest revision. Watches, and lists of any age, come from the cache. The cache has the
// objects of everybody, so these are authorized here, by the same table and the same limits of package
// access by which the registry authorizes its own lists and watches.
//
// The cost of a watch is that of its writes. An event is encoded once, with its frame, for all watches of
// one form, and the forms have a limit of memory (watchcache). What has happened since a watch looked last
// is written together, and the deadline of the writes is moved seldom. `make bench-kubeapi` measures it
// beside a watch of the registry.
//
// The invariant: whatever the request, the answer is the object, or a Status of the right code, and the
// memory that one request takes has a limit. Bodies, patches, the requests under way and the watches are
// limited, and a watch has no queue.
package server
