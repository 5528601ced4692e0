// Command mutate measures tests. It changes the code in one place, runs the tests of the package,
// and reports whether they fail.
//
// A mutant is one such change: a negated condition, a moved boundary, an exchanged operator, an
// error that is not returned, a call or an assignment left out. Tests that fail or do not end kill
// the mutant. A mutant that no test kills survives, and mutate prints its place, because tests
// would miss a fault there. A mutant that does not compile is not counted. Calls of a logger are
// left alone.
//
// The invariant: mutate never writes to the tree. A mutant is passed to the go command by -overlay,
// so a run can be interrupted at any time. Every outcome is appended to a file, together with a
// hash of the changed source file. The next run continues after the last outcome, and repeats only
// the mutants of files that have changed since.
//
// The mutants are a sample determined by the seed, so two runs on one tree try the same mutants in
// the same order.
//
// gremlins was not used, because it takes one module at a time and runs only the tests of the
// mutated package, while some packages here are tested by the package that uses them (see
// targets.go). It also does not leave out statements, and most of the surviving mutants are
// left-out statements.
package main
