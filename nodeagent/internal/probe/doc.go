// Package probe determines which pods of this node are ready and reports that to the registry.
//
// Readiness probes (TCP, HTTP, gRPC) have the meaning and the thresholds of Kubernetes;
// services/probe makes the single attempts. Package script runs the scripts of exec probes, which the
// administrator provides. The agent makes no attempts for a ttl check: a client reports its outcome, and the
// pod is not ready once the reports stop. The reports stay in memory, because a commit for each would cost
// more than all other readiness together. A pod without probes is ready once it runs. A pod that is ready in
// the registry when the agent starts stays ready until its probes have failed as often as the failure
// threshold says. So a restart of the agent makes no pod unready.
//
// Reporting is level-triggered: the pod's conditions in the registry are compared with the results
// of the probes whenever either changes, and a difference is written until the write succeeds. A
// lost report therefore only costs a delay.
package probe
