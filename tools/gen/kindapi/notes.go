package kindapi

// note has the texts of a kind that differ from the template.
type note struct {
	update   string // the effect of Update
	del      string // the effect of Delete, with its errors
	last     string // the object in DeleteResponse
	deleting string // further fields of DeleteRequest
}

// finalizers is the part of del that all kinds share.
const finalizers = " An object with finalizers is only marked as being deleted, and removed when it has none. Errors: NOT_FOUND, ABORTED."

// Texts of most kinds.
const (
	updateAll    = "replaces the object."
	updateSpec   = "replaces metadata and spec; status stays."
	deleteObject = "deletes the object." + finalizers
	lastState    = "The last state of the object. It has a deletion_timestamp if finalizers must be removed first."
)

var notes = map[string]note{
	"Pod": {
		del: "marks a running pod as terminating. Its endpoints then serve only if no other endpoint is ready, and the registry " +
			"removes the pod when its grace period is over. The pod's owner can confirm the end earlier with a grace period of 0, " +
			"which removes the pod at once. Any deletion of a pod that does not run also removes it at once: a pod that has ended, " +
			"or that has neither an address nor the phase RUNNING. A later deletion may shorten the grace period but not prolong it. " +
			"Finalizers always have to be removed first. Errors: INVALID_ARGUMENT (grace period), NOT_FOUND, ABORTED.",
		last: "The last state of the object. It has a deletion_timestamp while the pod is terminating.",
		deleting: `
  // Seconds until the pod is removed, 0-2147483647. 0: at once. Unset: its spec.termination_grace_period_seconds.
  optional int64 grace_period_seconds = 6;`,
	},
	"Revocation": {
		update: "replaces labels and annotations. The spec cannot change.",
		del:    "deletes the object, and the certificates are accepted again." + finalizers,
	},
	"Token": {
		update: "replaces labels and annotations. The spec cannot change.",
		del: "deletes the object, and the token is refused within seconds. An object with finalizers is only marked as being deleted, " +
			"and the token is refused too. Errors: NOT_FOUND, ABORTED.",
	},
}
