// Package probe finds out which pods of this node are ready, and tells the
// registry.
//
// Readiness probes (TCP, HTTP, gRPC) have the meaning and the thresholds of
// Kubernetes. A pod without probes is ready once it runs. A pod that the
// registry calls ready when the agent starts stays so until its probes have
// failed as often as it takes: a restart of the agent takes nobody out.
//
// The invariant is level-triggered: what the registry says of a pod is compared
// with what the probes say whenever either changes, and written when they
// differ, until it sticks. A report that is lost costs a delay, not a truth.
package probe
