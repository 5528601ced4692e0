// Package kerneltest runs the tests of a package in a kernel of their own.
//
// A package whose tests need IPVS, nftables and network namespaces says
//
//	func TestMain(m *testing.M) { kerneltest.Main(m) }
//
// and starts each test with Need. On the host, Main boots a stock Debian kernel
// under QEMU's software emulation and runs the same test binary in it, with the
// same -test flags; results, output and exit code are those of the binary in
// the guest. So the tests need no privileges, find the same kernel everywhere,
// and leave nothing behind.
//
// A package that needs no more than namespaces and nftables calls MainOrNative
// instead, and is tested on the machine's own kernel where that is possible.
//
// The one invariant: no exit code from the guest is a failure, whatever else
// was printed.
//
// The alternative, namespaces on the developer's own machine, needs root and a
// kernel with the right modules: a kernel that lacks them would test nothing and
// look green.
package kerneltest
