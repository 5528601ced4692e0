// Package reconcile makes the registrar's pods in the registry equal to what its sources report.
//
// It is level-triggered: each pod is a key of a queue, which becomes due when its workload, its service
// or the pod itself changes, and each time the whole difference is computed and written. What fails is
// tried again. So a lost change and a crash cost a delay, and nothing is left behind.
//
// # Ghosts
//
// A pod without a workload is deleted, but only after its source has once reported everything: until
// then nothing is known about its workload. A source that cannot be asked keeps its pods; if their
// workloads do not answer, the node agent's checks and the node's own readiness take them out of
// service. Pods of a source that is not configured any more are deleted at once.
//
// # Ends
//
// A workload that was asked to stop has its pod deleted with a grace period, so that it gets no new
// connections while it drains. When it is gone, a deletion without grace confirms that. A workload that
// runs again before its pod is removed gets a new pod: the old one is terminating and cannot return.
package reconcile
