// Command testrun runs the tests of every module in turn and says in one place what happened: go test's own line for each
// package, the whole output of what failed, every skipped test with its reason, and the closing line
//
//	N passed, N failed, N skipped
//
// (tests, subtests, examples and fuzz seeds each count as one). Its exit code is 0 only when nothing failed.
//
// The one invariant: nothing is hidden. A package that fails is run once more, alone, because the report is worth more when it
// says whether a failure repeats. A test that passes then is reported as FLAKY, at once and again at the end. A package that
// fails twice, or does not compile, fails the run.
//
// With PORTOLAN_REQUIRE_REAL=1, which is CI, two things more are failures:
//
//   - a flake, unless the file of -flakes lists the test with a reason. An entry whose test is gone fails the run too. The
//     alternative, to pass with a warning, was tried first: the warnings were not read.
//   - a skipped test, unless its reason begins with "allowed:". CI has all the real parts, so a skip means that something is
//     not tested that everybody believes to be.
//
// Why not plain go test: the root of a workspace has no ./..., and its exit code knows neither flakes nor skips.
// Why not gotestsum: it does not judge skips, and is one more thing to build before the first test.
package main
