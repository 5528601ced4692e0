// Package walls holds the shape of the repository by tests: who may import whom, where heavy libraries may stand, and the
// habits that keep files readable. It has no code of its own.
//
// The one invariant: the tests read every Go file of every module, whatever its build constraints, so a wall that stands
// on Linux stands everywhere. That is why they parse imports instead of asking go list, which answers for one platform and
// one module at a time and takes far longer. No forbidden path can hide behind an allowed one: a chain from one daemon to
// another would have to leave some package of ours by a direct import that is refused here.
//
// The tests read the repository through a link inside this module, so the go command notices every change of a file and does
// not serve an old result from its cache.
package walls
