// Package stores has the stores of simulated daemons: a database in memory that several registries
// share, like a Postgres server, and a disk that an allocator has for itself or shares with others.
//
// The stores survive the death of a daemon: committed writes are kept, all others are lost. Package
// netem decides how long a commit takes, so that a daemon can die before a commit, and between a
// commit and its reply. The database executes a statement even if the registry that has sent it
// dies meanwhile. The disk does not execute writes of a dead allocator.
//
// The real stores cannot be used because files and database servers need real time. But the code
// that decides the outcome of a batch is the real one: the group commit ([store.Committer]),
// [store.Decide], and the log of recent commits ([store.RecentLog]). Both stores pass the
// conformance tests of the real stores.
package stores
