// Package registrar is the daemon that registers what runs on its node: Docker's containers, systemd's
// units, and the manifests of a folder. A person with a compose file or a machine full of units gets
// virtual IPs and names without writing a registration.
//
//   - source is the contract of the places that workloads are registered from, and internal/docker and
//     internal/systemd fulfil it. terms reads what people write about a workload.
//   - internal/plan says which objects a workload needs, and internal/reconcile keeps the registry equal
//     to the reports of the sources.
//   - services/applyset/folder applies the manifests of a folder. It writes whatever they say, so it has
//     a certificate of its own, and a registrar without a folder needs none.
//
// The registrar is a daemon of its own and no part of the node agent, because it needs the socket of
// Docker, with which a program is root, and reads what strangers wrote into labels. The node agent
// changes the kernel, and should not die of either.
package registrar
