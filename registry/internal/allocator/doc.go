// Package allocator allocates virtual IPs and ports for services, before and after a commit.
//
// A write that needs values plans them ([NewPlan]), allocates them, commits, and then confirms
// them. Values that the new version no longer has are released after the commit. The invariant is
// that a value in use is never released. The worst outcome of any failure is a value that is held
// but not used, which the allocator's verifier frees after a grace period. A release is therefore
// skipped if it is not known whether the commit happened.
//
// The claims of an update have slots of their own, different from the slots of the version before.
// Otherwise two updates of the same version, of which one must fail, could release each other's
// values. The slots that an update releases are determined before its commit. A later version that
// claims one of the values again does so after the commit, in its own slot, so that slot is not
// released. The other order, determining them after the commit, released node ports of services
// that had just claimed them again.
package allocator
