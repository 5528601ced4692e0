// Package allocator allocates virtual IPs and ports for services, before and after a commit.
//
// A write that needs values plans them ([NewPlan]), allocates them, commits, and then settles them
// ([Client.Finish]). Values that the new version no longer has are released after the commit. The
// invariant is that a value in use is never released. The worst outcome of any failure is a value
// that is held but not used, which the allocator's verifier frees after a grace period. A release is
// therefore skipped if it is not known whether the commit happened.
//
// The claims of an update have slots of their own, different from the slots of the version before.
// Otherwise two updates of the same version, of which one must fail, could release each other's
// values. The slots that an update releases are determined before its commit. A later version that
// claims one of the values again does so after the commit, in its own slot, so that slot is not
// released. The other order, determining them after the commit, released node ports of services
// that had just claimed them again.
//
// # Values at hand
//
// The allocator grants each registry process a reserve of addresses before services ask for them. A
// service that needs only addresses that the reserve has gets them from memory (stock.go), and the
// allocator is told in the background, of many services at once (exchange.go, reserve.go). A create
// then waits for one commit, the commit of the object, and succeeds while the allocator is away. All
// other values are requested one by one, with a call to the allocator before the commit: named values
// that are not at hand, node ports, dry runs, and writes of clients that set a fence of their own, because
// a commit has one fence.
//
// A value must never be in two places. These rules see to that:
//
//   - The fence. A reserve has a Lease in the registry's own store, with a random name, which is
//     created before anything is allocated (holder.go). Every commit that stores newly allocated values,
//     also requested ones, is conditional on that Lease. After the Lease is deleted, no commit stores
//     values of the reserve. The allocator relies on it: it deletes the Lease, reads the log to its end,
//     and then knows which values of the reserve are in use. No clock is involved, and a process that was
//     stopped for an hour does no harm when it goes on.
//   - The log. The allocator answers with the epoch of the log for which it knows all values, and the
//     commit is conditional on that epoch too. In a log that was restored from a backup, objects may have
//     values that the allocator does not know of.
//   - Grants. Each value comes with the number of its grant. Settlements and returns name the grant, so
//     that a late or repeated settlement or return is ignored.
//   - One place in the stock. A value is free, taken by one write, or waits to be settled or returned.
//     It is put back only if the write was certainly not stored. If that is not known, the value is
//     settled as unconfirmed, and the allocator's verifier decides.
//
// A commit that the own fence or the epoch refuses drops the stock. The writer allocates and commits
// again under a new Lease, and its client does not notice. That is also how a Lease that an operator
// deletes by hand is repaired.
//
// A deletion names the addresses of the service in its release, because they may still be in a reserve
// if its process has not settled them. The late settlement is ignored then.
//
// # Rejected: claims in the transaction of the object
//
// If registry and allocator share one Postgres, the commit of an object could also insert its claims.
// There would be no second commit at all, neither before nor after the object's, nothing to settle, and
// no reserve to close. It was rejected for these reasons:
//
//   - Two programs would write the allocator's tables, and each would have to know all of its rules:
//     bands, resting values, pools that drain. An upgrade of one would have to wait for the other.
//   - It works only if both use the same database. The embedded store, an allocator elsewhere and an
//     allocator of another make need the other way anyway, so there would be two.
//   - Several replicas would pick a free value inside the commit that all writes of the registry wait
//     for. They would collide on the next free value, or take a lock for it, and each retry would repeat
//     the whole batch. Today that commit takes one round trip and never waits for anything but the
//     commit before it.
//
// The reserve saves the same part of a create's time, because settlements are batched: at thousands of
// creates in a second, a call and a commit of the allocator are shared by hundreds of services.
package allocator
