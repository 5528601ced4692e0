// Command mutate measures tests: it changes the code in one place, runs the tests of the package, and says whether they noticed.
//
// A mutant is one such change: a condition negated, a boundary moved, an operator exchanged, an error not returned, a call or
// an assignment left out. Tests that fail, or do not end, kill the mutant; one that no test kills survives, and its place is
// printed, because a fault there would pass. A mutant that does not compile is not counted. Calls of a logger are left alone.
//
// The invariant: the tree is never written to. A mutant is handed to the go command by -overlay, so a run can be interrupted
// at any time. Every outcome is appended to a file, together with a hash of the source file that was changed. A run that is
// started again goes on where the one before ended, and repeats only what has changed since.
//
// Mutants are a sample that the seed determines, so two runs on one tree try the same mutants in the same order.
//
// Why not gremlins: it takes one module at a time and runs the tests of the mutated package alone, while some packages here are
// tested by the package that uses them (see targets.go); and it does not leave out statements, which is how most of the
// faults look that survived.
package main
