// Package zone holds the names of the name server in the form in which they are answered.
//
// A [Table] takes objects as they change and publishes a [Snapshot] after each batch. A snapshot is
// a persistent hash tree from names to nodes: a batch copies the paths to the nodes that it changes
// and shares all others. A reader loads a snapshot with one atomic load and keeps it while it
// answers a question.
//
// The invariant is that a snapshot never changes, and that every name in it exists because of
// records at it or a name below it. A name that is not in the tree is therefore NXDOMAIN, and a
// name in the tree without the type in question is NODATA. No question needs a second look-up.
//
// Ranges of addresses are configured, while pools can be made at run time. A cluster IP outside of
// all ranges is therefore a zone of its own with one name. It exists as long as the service does,
// and the server claims no other addresses of the pool, because these may belong to another
// network. Asking the allocator for its pools would need another daemon and would be late. Such
// zones are not transferred. With a range in -service-cidr they become parts of a zone that is.
//
// Records are kept as packed data without owner, class and TTL; an A record takes four bytes. The
// server writes answers from this data and can start at any record of a set, so rotation costs
// nothing. Whole prepacked messages would be as fast but several times as large. Ready dns.RR
// values would be larger and slower.
package zone
