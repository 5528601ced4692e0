// Package allocatortest is the contract of AllocatorService as tests, for
// whoever implements it:
//
//	func TestConformance(t *testing.T) {
//		allocatortest.Run(t, func(t *testing.T) allocatorv1.AllocatorServiceClient {
//			return allocatorv1.NewAllocatorServiceClient(serveMine(t))
//		})
//	}
//
// The suite speaks gRPC only. Each test wants an allocator of its own without
// pools, and a rest of released values of at least a minute.
package allocatortest
