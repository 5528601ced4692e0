// Package controller keeps EndpointSlices and Endpoints in accordance with services and their pods.
//
// Every replica follows the registry, and writes for the services of the shards that it holds. A change
// makes the affected services of these shards due. A sync computes and writes the slices of one service.
// It needs no memory of earlier syncs, so a new holder syncs every service of the shard and writes only
// the differences. It finds the services of the shard by a hash of their names.
//
// Each shard has a queue, workers and a writer of its own, because a call to the registry has one
// fence. So no write of one shard can be made under the lease of another, and the queue of a lost shard
// ends with it. Calls of different shards are under way at the same time; the registry commits them
// together. One queue for all shards would need a check at each step whether the shard is still held.
//
// # Writes in batches
//
// Many services are synced at once, by as many workers. Each worker plans the writes of its service
// and hands them to the writer, which has one call to the registry under way at a time. All writes
// that wait when a call ends are in the next call, which the registry commits together. Each write
// gets an error or a result of its own, so only services with failed writes are synced again. If the
// writes of a plan depend on each other, the plan has several stages (packing.Plan), each in a later call.
//
// The alternative is a loop that takes all due services, plans them, and makes one call for all. Its
// batches are larger at first. But it does not plan while a call is under way, a slow plan delays all
// services of its batch, and retries, stages and refused endpoints of single services need separate code.
// Here they are ordinary code of one sync. Batches form by themselves: the longer a call takes, the more
// writes wait for the next. Several calls at once would be smaller, and the registry would commit them one
// after the other anyway.
//
// A call has one trace. If its writes belong to several traced changes, the others' traces end with
// the sync in this daemon.
//
// # Work for one change
//
// A sync of a service with many pods reuses the verdicts of the last sync for each pod that has not
// changed since. It skips the comparison of a slice if the slice has not changed and all its endpoints
// are wanted (packing.Memory). Then the only work for each pod is a comparison of pointers. The memory
// only saves work: without it, after a change of the holder, a sync gives the same slices. It needs
// about 1 KB for each pod of a service with 100 pods or more. Computing slices from the changed pods
// alone would be a second algorithm, which must always give the same result as the first.
//
// The Endpoints of a service has up to 1000 addresses, and each change sends the whole object to all
// followers. So it is written at most once in an interval, and later changes follow when the interval is
// over. This does not delay the slices.
//
// # Rules
//
// Only the registry decides which endpoints are valid. If it refuses single endpoints of a write,
// the controller leaves these out, remembers them, and tries them again after a while. Checking
// them beforehand would save a refused call but would duplicate the registry's rules.
//
// If the registry refuses a write for another reason, the controller makes the removals alone: it writes the
// stored slices without the endpoints that are not wanted any more. The stored slices were valid with more
// endpoints, so they are valid without them. The service counts as failing as long as the refusal lasts. The
// limits of services, pods and Endpoints are chosen so that this is rare: the README of the module has their
// table, and packing has the tests.
//
// The controller writes only objects with its label. In Kubernetes it also replaces an Endpoints that a
// person wrote for a service with a selector, and deletes it with the service. Here the registry refuses
// that, so that a stolen certificate of the controller cannot destroy objects of people. Forwarding does
// not use the Endpoints of a service with a selector.
//
// The invariant is that each write names the version on which it is based and the epoch of the
// lease. Therefore a replica with an outdated view, or without the lease, cannot change an object.
package controller
