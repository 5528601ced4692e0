// Package sourcetest checks a source against the contract of package source.
//
// A source is tested together with the place from which it reports, such as a Docker engine. The test of the
// source implements [World], which starts and stops workloads there. The alternative was a suite over
// recorded reports. It could check the form of each report, but not that the reports are true.
//
//	func TestContract(t *testing.T) {
//		sourcetest.Run(t, func(t *testing.T) sourcetest.World { return newWorld(t) })
//	}
package sourcetest
