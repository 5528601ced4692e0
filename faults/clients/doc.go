// Package clients uses an installation and records what it is told, for package check to judge.
//
// The clients know addresses and nothing of how an installation is made: registries, name servers,
// virtual IPs, and a function that dials from where a client is. So they serve real processes in
// namespaces, containers and other machines alike. What they do depends on a seed, though not in
// which order they do it.
//
// Two shapes were considered. One is a workload that knows what is allowed to happen, as
// portolan/e2e/churn has it: each actor owns its names, so every write must succeed and the wanted
// state is known without asking. It can say nothing of writes that compete, or of those without an
// answer. The other is what this package does: clients compete for few objects, note every outcome
// without judging it, and the registry's log says afterwards what was committed. It was chosen
// because faults make outcomes unknown, and because the races are where a registry with several
// replicas goes wrong. The checkers of churn serve all the same, with the world that the log leads
// to.
//
// An actor is where the two meet: it carries out what the workload of churn makes up, so that
// endpoints, rules and records have something to follow from, and records its calls as all clients
// do.
package clients
