// Package zone holds what the name server knows, in the form in which it answers.
//
// A [Table] takes objects as they change and publishes a [Snapshot] after each batch: a persistent hash tree from names to nodes, so that a
// batch copies the path to what it touched and shares everything else. Readers take a snapshot by one atomic load and keep it for as long as
// a question lasts.
//
// The one invariant: a snapshot never changes, and every name in it exists because of something at or below it. So a name that is not in
// the tree is NXDOMAIN and a name that is, without the type asked for, is NODATA; no question needs a second look.
//
// Ranges of addresses are configured, and pools can be made at run time. A cluster IP outside of all
// ranges is therefore a zone of its own, of one name: it is there with the service, and nothing is
// claimed of addresses that may be somebody else's. To ask the allocator for its pools would need
// another daemon and come late. Such zones are not transferred; with a range in -service-cidr they
// become parts of one that is.
//
// Records are kept as packed data without owner, class and TTL, four bytes for an A record: the server writes answers from it directly and
// may start anywhere in a set, which is how rotation costs nothing. Whole prepacked messages would be as quick and several times as large,
// and ready dns.RR values would be neither small nor quick.
package zone
