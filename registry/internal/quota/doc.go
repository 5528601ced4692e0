// Package quota limits the writes of clients in a time, and the number of objects.
//
// # Rates
//
// [Rates] limit how much a node agent, a workload or a registrar may write in a time, so that one stolen
// certificate, or one agent with a fault, cannot fill the log, the store and the memory of the
// registry. The invariant: within any time t, the objects that one identity writes have at most
// burst + rate × t bytes, and the same holds for their number. Other identities are not affected.
// Each replica of the registry counts for itself, so an agent that writes through all replicas gets
// the rate of each.
//
// Other roles have no rate. The machines of agents, workloads and registrars are the least trusted, and none
// has a reason to write for long at a high rate. The controllers write in proportion to all agents
// together, and operators may do everything anyway.
//
// The rate could be part of the permissions, which are checked before a request is read. But the
// size of an object is known only afterwards, and 100 writes of 200 bytes cost much less than 100
// writes of 16 KiB.
//
// # Quotas
//
// A [Ledger] limits the objects of a namespace, the pods of a workload or a registrar, and the services and
// namespaces that a registrar has created. An annotation names the owner of these objects. The invariant: no
// commit that adds to an account leaves it above its limit, with any number of clients and replicas. A
// lower limit removes nothing.
//
// The ledger counts along the view. The store calls it inside a commit, when nothing else can commit, and
// passes the changes that the view lacks. The cost of a write therefore depends only on the number of its
// accounts, and the store has no tables for quotas: no counter can be wrong after a crash, a restore or a
// change of the configuration. In Postgres a batch with a limited write takes two round trips more,
// because the head has to be locked before the decision. Other batches cost nothing more.
package quota
