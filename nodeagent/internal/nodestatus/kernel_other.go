//go:build !linux

package nodestatus

// kernelVersion returns an empty text, because no kernel forwards for agents on other systems.
func kernelVersion() string { return "" }
