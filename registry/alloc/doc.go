// Package alloc gets virtual IPs and ports for services from the allocator, around a commit.
//
// A write that needs values plans them ([NewPlan]), has them allocated, commits, and then confirms them; values that the new version no longer has
// are released after the commit. The invariant: a value in use is never released. Whatever goes wrong, the worst is a value that is held
// and that nobody has, which the allocator's verifier frees after a grace; so a release is skipped where it is not known if the
// commit happened.
//
// What an update claims has slots of its own, never those of the version before: two updates of one version, of which one must fail, then
// cannot release each other's values. Which slots an update releases is found out before its commit: a later version that takes one of
// the values again claims it after the commit, so its slot is not released. The other order, looking after the commit, took node ports from services
// that had just taken them again.
package alloc
