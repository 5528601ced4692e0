// Package clients uses an installation and records the outcomes, which package check compares with
// the promises.
//
// The clients need only addresses (of registries, name servers and virtual IPs) and functions that
// dial from a client's network. They do not depend on how an installation is made, so they work
// with processes in network namespaces, containers and other machines alike. The seed determines
// their choices, but not the order of concurrent calls.
//
// Two designs were considered. The first is the workload of portolan/e2e/churn, which knows the
// permitted outcomes: each actor has its own objects, so every write must succeed, and the wanted
// state is known without reading it. It cannot test competing writes, or writes without an answer.
// The second is this package: clients compete for few objects and record every outcome, and the
// registry's log decides afterwards which writes were committed. It was chosen because faults make
// outcomes unknown, and because races are a frequent cause of bugs in a registry with several
// replicas. The checkers of churn are used too, with the world that follows from the log.
//
// An actor combines the two designs. It carries out the steps that the workload of churn generates,
// so there are services from which endpoints, rules and DNS records follow, and it records its
// calls as all clients do.
//
// The owner of load balancers does not record its calls, because lbctl writes the same objects and
// ends their deletion. The log shows the addresses that its services get.
package clients
