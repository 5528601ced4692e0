// Package allocatortest tests the contract of AllocatorService, for any implementation:
//
//	func TestConformance(t *testing.T) {
//		allocatortest.Run(t, func(t *testing.T) allocatorv1.AllocatorServiceClient {
//			return allocatorv1.NewAllocatorServiceClient(serveMine(t))
//		})
//	}
//
// The suite uses gRPC only. Each test needs its own allocator without pools, in which released
// values rest for at least a minute. The allocator must find a Lease for each holder of a
// reserve except [ClosedHolder].
package allocatortest
