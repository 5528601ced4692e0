// Package allocation is the state of the allocator in memory: pools, allocations, claims and
// reserves, and the rules for allocating values. It decides, and the store makes the decisions
// durable.
//
// The invariant is that every change to the table is recorded in a [Change], both as the operations
// that the store must execute and as the steps that undo the change if the store fails. The package
// does not block or read a clock, and it is not safe for concurrent use. One goroutine owns a
// table.
//
// Deciding in memory makes picking cheap and allows a group commit to decide many requests before
// one transaction. Asking the database for a free value would cost a search per pick, and a retry
// per collision within the batch.
//
// # Reserves
//
// A registry process has a reserve of values before services ask for them. The invariants:
//
//   - A value in a reserve is an allocation owned by the reserve. A constraint of the store ensures that
//     it has no other owner, as for every value.
//   - A value leaves its reserve once: it goes to an object (settled), is free (returned), or rests
//     (released, or the reserve is closed). The holder names the value together with the number of the
//     grant that brought it. A settlement or return of a value that has left the reserve since that grant
//     is ignored, even if a later grant has put the value into the same reserve again.
//   - A reserve is closed only when no write of an object with one of its values can succeed any more.
//     The caller of [Table.CloseReserve] ensures that, and knows all objects that were written before.
//   - Reserves get free values of the upper band, never those at rest. A pool is full if all its values
//     are in use; values in reserves count as neither used nor free, and a request that needs them waits.
//
// Lost answers would leave values in a reserve that its holder does not know. The holder therefore
// numbers its calls, and each call has the number of the last grant that the holder has received. A grant
// has at least the number of its call. If a call arrives late, after a later call was granted values, its
// number is not greater than the number of that grant. It is refused, because it does not count that grant
// as received.
//
// A pool's values may be in reserves as long as its upper band has more than twice as many that no
// object has as all reserves may have together. Values in reserves count as available here. The number
// of free values alone would change whenever reserves return values, and they would get them back at
// once.
//
// Alternatives that were rejected:
//
//   - Ranges instead of single values for each registry: a range is not returned before its last value
//     is, so a pool could not be filled exactly, and a requested value could not be recalled.
//   - Leases of values by time alone: a registry process that was stopped and goes on would store a
//     value that was given to another. A fence in the registry's store needs no clock.
//   - Keeping reserves over a start of the allocator, by comparing the grants with a counter in the
//     Lease: one write in the registry per grant, and more to prove. A start closes them.
//   - A list of reserved values in the row of the reserve: it would be written as a whole for each
//     settlement, and the constraint of the store would not cover its values.
//
// # Ports per protocol
//
// A pool of ports may have one value for each number and protocol. Then a claim has one value for each
// protocol that it names, all of the same number: the first one in the claim's slot, the others in
// slots of their own, which begin with the name of the claim's slot. Two other shapes were considered.
// One value with a set of protocols could not be the key by which a store guarantees one owner for
// each number and protocol. Claims of one protocol each could not ask for a number that is free for
// two.
package allocation
