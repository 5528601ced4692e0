// Command testrun runs the tests of all modules and prints a single report: go test's own line for
// each package, the whole output of failed tests, every skipped test with its reason, the times of the
// slowest packages, and the closing line
//
//	N passed, N failed, N skipped
//
// Tests, subtests, examples and fuzz seeds each count as one. The exit code is 0 only if nothing
// failed.
//
// With -race each package is tested once: with the race detector, or without it if -plain names the
// package. One go test runs all packages of the workspace that have the same build flags, and the two
// of them run side by side. The alternative, one go test per module, leaves a processor idle at the end
// of each module, while its slowest package waits for a timer.
//
// The invariant: nothing is hidden. A package that fails is run once more, alone, so that the
// report says whether the failure recurs. A test that then passes is reported as FLAKY, immediately
// and again at the end. A package that fails twice, or does not compile, fails the run.
//
// With PORTOLAN_REQUIRE_REAL=1, which CI sets, two more things are failures:
//
//   - flakes that the file of -flakes does not list with a reason, if they are more than
//     -unknown-flakes. An entry without a test fails the run too. Two alternatives were tried. A
//     warning for any number of flakes was not read. A failure for each flake kept finished changes
//     out for weeks, because among thousands of tests with kernels, containers and deadlines some
//     other one fails in most weeks, and none of these flakes had to do with the change.
//   - a skipped test, unless its reason begins with "allowed:". CI has everything that the tests
//     need, so a skipped test is a test that is missing unnoticed.
//
// Plain go test is not enough, because the root of a workspace has no ./..., and its exit code
// ignores flakes and skips. gotestsum does not check skips, and would have to be built before the
// first test.
package main
