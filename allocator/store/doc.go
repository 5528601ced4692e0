// Package store defines the storage of allocations. The store decides if two owners request the
// same value: an implementation must guarantee by a constraint, not only by its logic, that a value
// has at most one owner.
//
// An allocation is a value with its owner. The claims of an allocation are the slots of the owner
// that have the value. An allocation without claims is at rest: it has no owner, although the last
// owner is still stored.
//
// A value in a reserve of a registry process is an allocation like any other, owned by the reserve, so
// that the same constraint gives it one owner. A reserve itself is stored apart, because it exists also
// without values.
//
// A batch has allocations, reserves and pools that are stored together or not at all, because a
// group commit can do that in one transaction. An allocation is stored as a whole, with its claims,
// and not as operations on single claims, so that a batch writes one row per value, however many
// steps it took.
//
// # A store of several processes
//
// Each process decides from a copy of the store in its memory. The invariant is that a process
// decides only from the present state: [Store.Transact] takes the store's lock, gives the process the
// changes of other processes, runs the decision, and stores it before it releases the lock. So no
// decision has to be repeated because another process was faster, and rules that no constraint
// expresses hold as well, such as one value for each slot of an owner.
//
// Two other shapes were considered. Writes with conditions, which fail if another process was
// faster, need no lock; but the last values of a pool would be decided again and again, and
// repeating a claim could give it a second value. A transaction as an object, with Begin and Commit,
// does the same as Transact; but the function cannot forget to end it, and a store need not defend
// itself against a transaction that is used after its end.
//
// Pools are part of a batch and not methods of the store, for the same reason: whether a pool may be
// removed depends on the values in use, and the table in memory has the rules.
//
// Readers that must see the newest changes of other processes call [Store.News] first. It costs one
// round trip. A poll in the background would cost them continuously and still be late.
//
// [Position] has a random mark besides its number. If an older copy of a database is restored under
// running processes, they find that the store does not have their position (ErrWentBack). They must
// not go on from there: values that were allocated after the copy was made look free.
package store
