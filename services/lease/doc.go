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
// Each shard has a Lease. Each replica also holds one of as many Leases of members, which shows the
// others that it takes shards. Every replica reads all these Leases and computes, from the same data
// by the same rule, how many shards each member holds and which of the vacant ones it takes
// (balance). It releases what it has too much when its writes have ended, as it does at its end.
// Leases of members have no part in the invariant: a wrong view of them moves shards, nothing else.
// There are as many as shards because more replicas would get none, and because Leases with the names
// of replicas would pile up, as a replica has another name after a restart.
//
// The other shape has no members: replicas compete for shards after a pause proportional to what they
// hold. Nobody knows there that a replica has joined, so each replica would have to release shards
// from time to time for others that might want them, and every shard would stand still that often.
//
// # The number of shards
//
// The Lease of shard 0 is the one that a single leader has, so a leader without shards and the
// replicas with shards exclude each other there. It has the number of shards that is in force. A
// replica with another number takes no shards, and says so, until no replica with that number holds a
// shard. So a rolling restart with another number changes it when the last replica with the old
// number stops. Then the replica
//
//  1. takes shard 0,
//  2. takes each Lease of the old number in turn and closes it, so that the writes of its last holder
//     are refused,
//  3. writes the new number into the Lease of shard 0, and leads, and
//  4. opens the Leases of the new number.
//
// A replica takes a Lease only if it is open with the replica's number. Steps 2 to 4 carry the epoch
// of shard 0. So at any time all open Leases have one number, whenever a replica stops or sleeps in
// between. The registry checks one fence for each write; with one it suffices to fence the shard.
//
// The other shape has the number in the names of the Leases. The Leases of the old number have to be
// closed there, too, and must first be found.
//
// A replica of a release before shards does not know the number. It removes it when it takes shard 0
// and writes for all services. The others then give up their shards within a fifth of the lease's
// duration; until then both write. Therefore all replicas are upgraded before the number is changed.
package lease
