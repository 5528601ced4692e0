// Command testrun runs the tests of every module in turn and says in one place what happened: go test's own line for each
// package, the whole output of what failed, every skipped test with its reason, and the closing line
//
//	N passed, N failed, N skipped
//
// (tests, subtests, examples and fuzz seeds each count as one). Its exit code is 0 only when nothing failed.
//
// The one invariant: nothing is hidden. A package that fails is run once more, alone, and when it passes then, that is
// reported as FLAKY, at once and again at the end. The reason for the second run: the tests drive real kernels, databases
// and brokers, which share two cores on CI, and one starved process must not cost a whole run. A flake is a fault to mend
// all the same; it is reported, never hidden. What fails twice, or does not compile, fails the run.
//
// With PORTOLAN_REQUIRE_REAL=1 a skipped test is a failed one, unless its reason begins with "allowed:": CI has all the
// real parts, so a skip there means that something was not tested which everybody believes to be.
//
// Why not plain go test: the root of a workspace has no ./..., and its exit code knows neither flakes nor skips.
// Why not gotestsum: it does not judge skips, and is one more thing to build before the first test.
package main
