package events

// Reasons of events about services.
const (
	FailedToListen    = "FailedToListen"
	NotSupported      = "NotSupportedByDataPlane"
	AddressInUse      = "AddressInUse"
	InvalidService    = "InvalidServiceOrEndpoint"
	HealthCheckFailed = "FailedToStartServiceHealthcheck"
	NodePortTaken     = "NodePortTaken"
	AffinityKept      = "AffinityKept"
)

// FailedToProgram is the reason of events about a service, and of events about the node for
// failures that concern all services.
const FailedToProgram = "FailedToProgram"

// Reasons of events about the node.
const (
	ProxyModeFallback    = "ProxyModeFallback"
	KernelSettingRefused = "KernelSettingRefused"
	FailedToReadBack     = "FailedToReadBack"
	ViewOnDiskRefused    = "ViewOnDiskRefused"
	AddressesUnknown     = "AddressesUnknown"
)

// CheckRefused is the reason of events about a pod with an exec check that the agent does not run.
const CheckRefused = "CheckRefused"
