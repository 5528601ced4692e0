// Package registry is a model of the registry for simulations. It keeps the contract of the
// registry without having a store.
//
// The log is changestest.Log, which the tests of the change stream use, too: it has revisions
// without gaps, snapshots at one revision, pruning, and epochs. The model adds the other parts
// that daemons need: defaults by services/spec, version conflicts, lease fences, and a garbage
// collector that removes the objects of deleted owners. Writes that arrive during a commit share the
// next commit and are published together. RestoreBackup removes the last changes of the log and
// gives it a new epoch.
//
// The real registry on SQLite keeps the same contract, but it takes milliseconds to open, and a
// write takes a hundred times as long as here. Schedules mostly need late replies and commits of
// unknown outcome, and these arise between the registry and its clients, with either registry. The
// contract of the real registry is tested by its own tests and by faults/nemesis.
package registry
