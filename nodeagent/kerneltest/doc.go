// Package kerneltest runs the tests of a package in a kernel of their own.
//
// A package with tests that need IPVS, nftables and network namespaces contains
//
//	func TestMain(m *testing.M) { kerneltest.Main(m) }
//
// and starts each test with Need. On the host, Main boots a stock Debian kernel under QEMU's
// software emulation and runs the same test binary in it, with the same -test flags. It returns
// the results, the output and the exit code of the binary in the guest. So the tests need no privileges, use
// the same kernel everywhere, and leave nothing behind.
//
// A package that needs only namespaces and nftables calls MainOrNative instead. It is tested on the
// machine's own kernel if possible.
//
// The invariant: if the guest reports no exit code, the tests have failed, independent of their
// output.
//
// The alternative, namespaces on the developer's own machine, needs root and a kernel with the
// right modules. On a kernel without them, the tests would check nothing and still pass.
package kerneltest
