package sourcetest

import "portolan.dev/registrar/source"

// World is a place from which a source reports, such as a Docker engine. A method that cannot do its work
// fails the test. Workloads are removed at the end of the test.
type World interface {
	// Source returns a new source of this world, as after a restart of the registrar. The suite runs one
	// source at a time.
	Source() source.Source
	// Start starts a workload with labels and returns its ID, see source.Workload. The labels have the names
	// of package labels, such as service and port.http.
	Start(labels map[string]string) string
	// Stop asks a workload to stop, and returns at once. The workload runs until Finish.
	Stop(id string)
	// Finish ends a workload that was asked to stop.
	Finish(id string)
	// Kill ends a workload at once.
	Kill(id string)
	// Disconnect makes the place unreachable for sources. Its workloads go on.
	Disconnect()
	// Reconnect makes it reachable again.
	Reconnect()
}
