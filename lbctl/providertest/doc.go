// Package providertest tests implementations of the contract of load-balancer providers,
// portolan.loadbalancer.v1.LoadBalancerProviderService, and has a small one to test their caller with.
//
//	func TestConformance(t *testing.T) {
//		providertest.Run(t, providertest.Subject{Client: client})
//	}
//
// The suite makes load balancers of services that exist nowhere else, in the namespace providertest,
// and deletes them. It checks what lbctl relies on: calls can be repeated, a load balancer belongs to
// the uid of a service and not to its name, and a deletion leaves nothing, whatever went before.
package providertest
