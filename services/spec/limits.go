package spec

import "strings"

// Limits of fields that node agents and workloads may write. Kubernetes bounds few of them, and its
// bound of a condition's message is 32 KiB. Every version of an object is kept in the log and sent
// to all followers. Therefore these limits are only somewhat above the needs of Portolan's own writers
// and of ordinary manifests.
const (
	maxLabels       = 128 // each is a key of an index in the endpoint controller
	maxFinalizers   = 32
	maxOwners       = 32
	maxOwnerText    = 253
	maxConditions   = 32
	maxReason       = 128  // bytes, as Kubernetes bounds the reason of an Event
	maxMessage      = 1024 // bytes, as Kubernetes bounds the message of an Event
	maxText         = 256  // bytes of versions and similar texts
	maxReference    = 253  // bytes of each name in a reference
	maxFieldPath    = 1024
	maxReporter     = 128 // bytes, as Kubernetes bounds the reporting component of an Event
	maxNodeAddrs    = 64
	maxTaints       = 64
	maxContainers   = 64 // and as many that run before
	maxContainerEnv = 512
	maxEnvName      = 253
	maxPodPorts     = 128 // of one container
	maxGates        = 32
	maxHTTPHeaders  = 32
	maxPath         = 2048
	maxCommand      = 65   // the script of an exec check and its arguments
	maxArgument     = 4096 // bytes
	maxTTLSeconds   = 24 * 60 * 60
)

// The endpoint controller copies the labels of a Service to its Endpoints and slices, and the labels of an
// Endpoints to the slices that mirror it. The larger limits have room for the labels that it adds.
const (
	// MaxEndpointsLabels has room for the labels of the controller and of headless services.
	MaxEndpointsLabels = maxLabels + 2
	// MaxSliceLabels has room for the labels of the controller, of the service's name and of headless services.
	MaxSliceLabels = MaxEndpointsLabels + 3
)

// ShortenMessage shortens the message of an Event or condition to the longest that is valid. It
// leaves out bytes that are not UTF-8, which the registry refuses, because a message may contain
// the answer of any program.
func ShortenMessage(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxMessage)], "")
}

// atMost adds a violation if a list has too many entries. It reports whether the entries should be
// checked, so that a refused list costs no more than its length.
func (c *checks) atMost(field string, have, limit int) bool {
	if have > limit {
		c.tooMany(field, have, limit)
		return false
	}
	return true
}

// text adds a violation if a text is too long.
func (c *checks) text(field, value string, limit int) {
	if len(value) > limit {
		c.tooLong(field, limit)
	}
}
