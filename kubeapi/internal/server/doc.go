// Package server answers the requests of Kubernetes' API.
//
// Reads of objects and lists, and all writes, are calls of the registry on behalf of the client. A read
// without a resource version has everything that was written before it began, because it first asks the
// store for its newest revision. Watches come from the cache. The cache has the objects of everybody, so
// a watch is authorized here, by the same table and the same limits of package access by which the
// registry authorizes its own watches.
//
// The invariant: whatever the request, the answer is the object, or a Status of the right code, and the
// memory that one request takes has a limit. Bodies, patches, the requests under way and the watches are
// limited, and a watch has no queue.
package server
