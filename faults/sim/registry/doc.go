// Package registry is a model of the registry for simulations: its contract without its store.
//
// The log is the one that the tests of the change stream use (changestest.Log): revisions without
// gaps, snapshots at one revision, pruning, and epochs. The model adds the rest of the contract
// that daemons rely on: defaults by services/spec, versions that conflict, fences of leases, and a
// collector that removes the objects of a deleted owner. Writes that come while a commit is under
// way share the next one, and are published together. A backup can be restored: the log is set back
// and has another epoch.
//
// The real registry on SQLite keeps the same contract. It takes milliseconds to open and a hundred
// times as long for a write. A schedule mostly needs answers that come late and commits of unknown
// outcome, and these arise between the registry and its clients anyway. The real one is tested
// against the contract by its own tests and by faults/nemesis.
package registry
