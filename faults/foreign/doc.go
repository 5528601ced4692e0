// Package foreign puts firewall rules and routes of others into the namespaces of nodes, and checks that agents
// leave them alone: whatever happens to agents, and when they clean up behind themselves.
//
// The names are as near to those of agents as they can be: tables of the same name in other families, and names
// that begin or end alike. Tables are compared byte for byte, with the handles of chains, rules and sets, so that
// a table that was made anew is another one. Only counters are left out.
//
// A kernel of the lab without IPVS has no virtual servers of others to put. The scenario "what is somebody else's"
// of nodeagent/dataplane/dataplanetest has them, in the kernel that kerneltest emulates.
package foreign
