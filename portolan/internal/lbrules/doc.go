// Package lbrules computes the firewall rules that services of type LoadBalancer need at their edges,
// for people who configure firewalls that Portolan does not know.
//
// A service needs rules of three kinds, which cloud providers set for network load balancers and whose
// descriptions are theirs: health checks of the load balancer, the traffic of clients, and the ICMP
// messages by which clients and nodes find the size of packets. Each rule is for one family and one
// destination, because firewalls want it so.
//
// Node agents restrict clients by the same source ranges ([spec.LoadBalancerSourceRanges]). A firewall
// in front of them drops the packets of other clients earlier, and protects the node ports too.
package lbrules
