// Package reconcile makes the registrar's pods in the registry equal to the reports of its sources.
//
// It is level-triggered: the name of each pod is a key of a queue, and the key becomes due when the workload,
// its service or the pod itself changes. Each time, the whole difference is computed and written. A write
// that fails is tried again. So a lost change or a crash costs a delay and leaves no pod behind.
//
// # Ghosts
//
// A pod without a workload is deleted, but only after its source has reported all workloads once, because
// until then it is not known whether the workload runs. While a source cannot read its workloads, its pods
// stay. If they do not answer, the node agent's checks and the node's own readiness take them out of service.
// Pods of a source that is not configured any more are deleted at once.
//
// # Ends
//
// When a workload is asked to stop, its pod is deleted with a grace period, so that it gets no new connections
// while it drains. When the workload has ended, the pod is deleted without a grace period. A workload that runs
// again before its pod is removed gets a new pod, because a terminating pod stays terminating.
package reconcile
