// Package foreign adds foreign firewall rules and routes to the network namespaces of nodes, and
// checks that agents do not change them, during faults and in nodeagent cleanup.
//
// The names are as similar to the agents' names as possible: tables of the same name in other
// families, and names with the same beginning or end. Tables are compared byte for byte, with the
// handles of chains, rules and sets, so that a table that was deleted and created again is a
// difference. Only counters are ignored.
//
// If the kernel of the lab has no IPVS, there are no foreign virtual servers. The scenario "what is
// somebody else's" of nodeagent/dataplane/dataplanetest has them, in the kernel that kerneltest
// emulates.
package foreign
