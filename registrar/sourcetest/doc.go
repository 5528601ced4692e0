// Package sourcetest checks a source against the contract of package source.
//
// A source is tested with the place that it reports from, such as a Docker engine: a [World] starts and
// stops workloads there. The suite cannot know how to do that, and a source alone cannot be tested, because
// all promises of the contract are about changes of its place. The alternative was a suite that is given
// records of reports; it could check that each is well-formed, but not that they say what is there.
//
//	func TestContract(t *testing.T) {
//		sourcetest.Run(t, func(t *testing.T) sourcetest.World { return newWorld(t) })
//	}
package sourcetest
