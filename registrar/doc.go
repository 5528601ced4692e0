// Package registrar is the daemon that registers the workloads of its node: Docker's containers and
// systemd's units. It also applies the manifests of a folder. So the services of a compose file or of a
// machine full of units get virtual IPs and names without registrations written by hand.
//
//   - Package source is the contract of sources. internal/docker and internal/systemd implement it.
//     internal/labels has the labels of workloads.
//   - internal/objects builds the objects that a workload needs, and internal/reconcile keeps the registry
//     equal to the reports of the sources.
//   - dir applies the manifests of a folder. Manifests can contain any object, so the folder has a
//     certificate of its own, which a registrar without a folder does not need.
//
// The registrar is a daemon of its own and not a part of the node agent. It needs the socket of Docker, which
// gives a program the rights of root, and it reads labels that strangers wrote. The node agent, which changes
// the kernel, should not fail because of either.
package registrar
