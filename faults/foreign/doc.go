// Package foreign adds foreign firewall rules and routes to the network namespaces of nodes, and
// checks that agents do not change them, during faults and in nodeagent cleanup.
//
// The names are as similar to the agents' names as possible: tables of the same name in other
// families, and names with the same beginning or end. Tables are compared byte for byte, with the
// handles of chains, rules and sets, so that a table that was deleted and created again is a
// difference. Only counters are ignored.
//
// A lab on a kernel without IPVS has no foreign virtual servers. Package kerneltest emulates a
// kernel with IPVS, and package dataplanetest tests foreign virtual servers there.
package foreign
