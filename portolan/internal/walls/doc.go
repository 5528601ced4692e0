// Package walls checks the structure of the repository by tests: allowed imports, packages that may
// use heavy libraries, and habits that keep files readable. Further tests check that documents,
// dashboards and the patches of deliberate bugs fit the code. The package has no code of its own.
//
// The invariant is that the tests read every Go file of every module, also files for other systems, so
// that a rule that holds on Linux holds on every system. They therefore parse
// imports instead of asking go list, which answers for one platform and one module at a time and is
// far slower. A forbidden import cannot hide behind an allowed one: a chain of imports from one
// daemon to another contains a direct import that is refused here.
//
// The tests read the repository through a link inside this module, so that the go command notices
// every change of a file and does not serve an old result from its cache.
package walls
