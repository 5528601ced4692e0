// Package probe determines which pods of this node are ready and reports that to the registry.
//
// Readiness probes (TCP, HTTP, gRPC) have the meaning and the thresholds of Kubernetes;
// services/probe makes the single attempts. The scripts of exec probes are the administrator's;
// package script runs them. A ttl check is not asked: a client reports its outcome, and the pod is not
// ready once the reports stop. They stay in memory, because a commit for each would cost more than all
// other readiness together. A pod without probes is ready once it runs. A pod that
// is ready in the registry when the agent starts stays ready until its probes have failed as often
// as the failure threshold says. So a restart of the agent makes no pod unready.
//
// Reporting is level-triggered: the pod's conditions in the registry are compared with the results
// of the probes whenever either changes, and a difference is written until the write succeeds. A
// lost report therefore only costs a delay.
package probe
