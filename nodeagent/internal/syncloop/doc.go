// Package syncloop is the sync loop of a node agent: it follows the view, plans the services that a
// change touches, puts the changes in force, and retries failures with growing pauses while
// everything else continues. It corresponds to a Proxier of kube-proxy.
//
// A batch is planned from one revision of the view. If some services were planned from a newer
// revision, they could get addresses of services that are deleted by then.
//
// The invariant: the data plane was asked to carry out every change up to the revision in the
// heartbeat. The services that its record lacks are listed beside the revision. The alternative, to
// hold the revision back at the first failure, would let one port that is in use hide the state of
// all other services.
//
// One goroutine, Run, plans and programs. All other methods may be called at any time. The plan has
// one lock, which is held while the data plane works. Heartbeats and health endpoints read the
// progress without that lock, because they must answer while the kernel does not.
//
// The package depends on the layers that it joins: view, plan and the contract of a data plane. It
// declares its other needs as interfaces: a Recorder of events and the HealthChecks of services. So
// its tests need no registry, and a new plane needs no change here.
package syncloop
