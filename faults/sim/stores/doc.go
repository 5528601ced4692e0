// Package stores has the stores of simulated daemons: a database in memory that several registries
// share, as they share a Postgres, and a disk that an allocator has for itself.
//
// The promises of a store hold through the death of a daemon: committed writes are there
// afterwards, all others are gone. A commit takes time, which the weather decides about, so that a
// daemon can die before a commit, and between a commit and the answer. A statement that a registry
// has sent to the database is carried out also if the registry dies meanwhile; the disk of an
// allocator ends with it.
//
// The real stores need real time: a file on a disk, or a server of its own. But the code that
// decides about a batch is the real one: the group commit ([store.Committer]), [store.Decide], and
// the memory of recent commits ([store.RecentLog]). Both stores pass the tests that the real ones
// pass.
package stores
