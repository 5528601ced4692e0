// Package plan says which objects a workload needs: its pod, and on demand its service and namespace. It
// consists of pure functions, without registry and clock.
//
// # Labels
//
// The pod gets the labels that the service selects, so that a service that somebody made with a selector
// of his own gets containers as backends without a change. A service made on demand selects
// [object.LabelService]. Pods have this label in any case.
//
// # Ports
//
// A service made on demand refers to the ports of its pods by name. So containers of one service may
// listen at different numbers, as published ports do.
//
// # Readiness
//
// A workload with a check has it as the pod's probe, and the node agent decides. Otherwise the source
// knows whether the workload is ready, from Docker's HEALTHCHECK or systemd's notify, and the pod has a
// readiness gate for the condition in which the registrar writes that. The registrar does not write the
// condition Ready itself, because the node agent owns it and would write it again.
//
// # Names
//
// A pod is named after its service, followed by a hash of the node, the source and the workload's ID. The
// name is therefore the same after a restart, and the registrar finds the pods that it made before.
package plan
