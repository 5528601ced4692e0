package history

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"portolan.dev/services/object"
)

// SetOutcome sets the outcome of a call from its response. Refused is set only for errors after
// which a write cannot have been committed.
func (c *Call) SetOutcome(result object.Object, err error) {
	c.Code, c.Result = status.Code(err), VersionOf(result)
	switch c.Code {
	case codes.OK:
		c.Outcome = OK
		return
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.Aborted, codes.FailedPrecondition,
		codes.ResourceExhausted, codes.PermissionDenied, codes.Unauthenticated, codes.OutOfRange, codes.Unimplemented:
		c.Outcome = Refused
	default: // also UNAVAILABLE, because the connection or the store may have failed after the commit
		c.Outcome = Unknown
	}
	c.Error = err.Error()
}
