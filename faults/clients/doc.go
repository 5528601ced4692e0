// Package clients uses an installation and records the outcomes, for package check to judge.
//
// The clients need only addresses: registries, name servers, virtual IPs, and a function that dials
// from a client's place. They do not depend on how an installation is made, so they work with real
// processes in namespaces, containers and other machines alike. The seed determines their choices,
// but not the order in which their calls happen.
//
// Two designs were considered. One is the workload of portolan/e2e/churn, which knows which
// outcomes are allowed: each actor owns its names, so every write must succeed and the wanted state
// is known without reading it. It cannot test writes that compete, or writes without an answer. The
// other is this package: clients compete for few objects and record every outcome without judging
// it, and the registry's log says afterwards which writes were committed. It was chosen because
// faults make outcomes unknown, and because races are where a registry with several replicas goes
// wrong. The checkers of churn are used too, with the world that the log leads to.
//
// An actor combines the two. It carries out the steps that the workload of churn generates, so that
// endpoints, rules and records have services to follow from, and records its calls as all clients
// do.
package clients
