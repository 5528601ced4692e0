// Package lbrules computes the firewall rules that services of type LoadBalancer need at their edges,
// for people who configure firewalls that Portolan does not know.
//
// A service needs rules of three kinds: for health checks of the load balancer, for the traffic of
// clients, and for the ICMP messages by which clients and nodes find the size of packets. Cloud providers
// set the same rules for network load balancers, and the descriptions of the rules are taken from them.
// Each rule is for one family and one destination, because firewalls have no other rules.
//
// Node agents restrict clients by the same source ranges ([spec.LoadBalancerSourceRanges]). A firewall
// in front of them drops the packets of other clients earlier, and protects the node ports too.
package lbrules
