package sourcetest

import "portolan.dev/registrar/source"

// World is a place that a source reports from. Its methods fail the test if they cannot do what they say.
// What a test started is removed at its end.
type World interface {
	// Source returns a new source of this world, as after a restart of the registrar. The suite runs one
	// source at a time.
	Source() source.Source
	// Start starts a workload and returns its ID, see source.Workload. The words are those of package
	// terms without the source's spelling, such as service and port.http.
	Start(words map[string]string) string
	// Stop asks a workload to stop. It returns while the workload goes on, until Finish.
	Stop(id string)
	// Finish lets a workload end that was asked to stop.
	Finish(id string)
	// Kill ends a workload at once.
	Kill(id string)
	// Disconnect makes the place unreachable for sources. What runs there goes on.
	Disconnect()
	// Reconnect makes it reachable again.
	Reconnect()
}
