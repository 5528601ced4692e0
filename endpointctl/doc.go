// Package endpointctl is the daemon that turns selectors into EndpointSlices, and the health of
// nodes and pods into readiness.
//
// The services are divided into shards. The replica that holds the Lease of a shard syncs its services,
// and the epoch of the Lease fences the writes. Every replica follows the whole registry, so it can take
// any shard. By default there is one shard: its holder leads, and the other replicas take over if it
// fails. The holder of shard 0 also sets the readiness of nodes. Package services/lease describes how
// replicas share the shards and how the number of shards changes. The invariant is that all writes depend
// on the objects in the registry only, and not on the memory of a replica.
//
// The alternative is one leader that assigns services to workers. The registry would have to check the
// worker's assignment with each write, and the leader's death would stop all workers.
package endpointctl
