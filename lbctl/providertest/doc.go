// Package providertest tests implementations of the contract of load-balancer providers,
// portolan.loadbalancer.v1.LoadBalancerProviderService, and has a small implementation to test callers with.
//
//	func TestConformance(t *testing.T) {
//		providertest.Run(t, providertest.Subject{Client: client})
//	}
//
// The suite makes load balancers of services that exist nowhere else, in the namespace providertest,
// and deletes them. It checks the properties on which lbctl relies: calls can be repeated, a load balancer
// belongs to the uid of a service and not to its name, and after a deletion nothing is left, even if earlier
// calls have failed.
package providertest
