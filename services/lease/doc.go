// Package lease divides the shards of a task among replicas, by Leases in the registry. If there is
// one shard, it elects one leader.
//
// The invariant is that two replicas never write successfully for one shard at the same time. A
// holder that cannot renew the lease of a shard gives the shard up, by its own clock, before other
// replicas may take it. If its clock or scheduler fails, its writes still carry the epoch of the
// lease ([Fence]), and the registry refuses them once another replica has taken the shard.
//
// A replica decides by the changes of a lease whether its holder is alive, never by the times in
// the lease, because the clocks of machines need not agree.
//
// # Balance
//
// Each shard has a Lease. There are as many Leases of members. A replica that takes shards holds one of
// them, so that the other replicas know it. Every replica reads all these Leases and computes, from the
// same data by the same rule, the number of shards of each member and the vacant shards that it takes
// (balance). If it has too many, it releases some after their writes have ended, as it releases all when it
// stops. Leases of members do not matter for the invariant: a wrong view of them only moves shards. There
// are as many as shards, because further replicas would get no shard. They are not named after replicas,
// because a replica has another name after a restart, so unused Leases would pile up.
//
// The alternative has no members: replicas compete for shards after a pause proportional to the number of
// shards that they hold. Then no replica learns that another one has joined. Each replica would have to
// release shards from time to time, and every shard would stand still that often.
//
// # The number of shards
//
// A single leader and the holder of shard 0 use the same Lease, so that they exclude each other. This Lease
// has the number of shards that is in force. A replica with another number takes no shards, and reports
// that it waits, while a replica with the number in force holds a shard. So a rolling restart with another
// number changes the number when the last replica with the old one stops. Then a waiting replica
//
//  1. takes shard 0,
//  2. takes each Lease of the old number in turn and closes it, so that the writes of its last holder
//     are refused,
//  3. writes the new number into the Lease of shard 0, and leads, and
//  4. opens the Leases of the new number.
//
// A replica takes a Lease only if it is open with the replica's number. The writes of steps 2 to 4 carry
// the epoch of shard 0. So at any time all open Leases have the same number, even if a replica stops or
// sleeps between two steps. The registry checks one fence for each write, so a write fences its shard and
// not the number too.
//
// The alternative has the number in the names of the Leases. Then the Leases of the old number also have to
// be closed, and must first be found.
//
// A replica of a release without shards ignores the number. It removes the number when it takes shard 0,
// and writes for all services. The other replicas then give up their shards within a fifth of the lease's
// duration; until then both write. Therefore all replicas are upgraded before the number is changed.
//
// A fixed number, or a number that only a stopped installation can change, would make steps 1 to 4
// unnecessary. It was rejected, because the best number depends on the number of replicas, each shard costs
// the registry a write in a second, and endpointctl/README.md promises that a rolling restart changes the
// number. Most of this code would stay: replicas with two numbers may run at the same time by mistake, and
// then the last holder of a shard of the old number must be fenced before a shard of the new number is taken.
package lease
