// Package objects returns the objects that a workload needs: its pod and, if they do not exist, its service and
// its namespace. It does not access the registry.
//
// # Labels
//
// The pod gets the labels that its service selects. So an existing service with any selector gets containers
// as backends without a change. A service that the registrar creates selects [object.LabelService], which
// all pods of the registrar have.
//
// # Ports
//
// A service that the registrar creates refers to the ports of its pods by name. So the containers of one
// service may have different port numbers, as published ports do.
//
// # Readiness
//
// If a workload has a check, the check is the pod's probe, and the node agent decides whether the pod is
// ready. Otherwise the source decides, from Docker's HEALTHCHECK or systemd's notify: the pod has a readiness
// gate for the condition [object.ConditionSourceReady], which the registrar writes. The registrar does not
// write the condition Ready itself, because the node agent owns it and would overwrite it.
//
// # Names
//
// The name of a pod is the name of its service, a dash, and a hash of the node, the source and the workload's
// ID. So the name is the same after a restart of the registrar, which finds its pods by it.
package objects
