package apierr

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
)

// Domain is the ErrorInfo domain of every error of Portolan.
const Domain = "portolan.dev"

// Reasons of an error, in its ErrorInfo.
const (
	ReasonInvalidArgument    = "INVALID_ARGUMENT"
	ReasonNotFound           = "NOT_FOUND"
	ReasonAlreadyExists      = "ALREADY_EXISTS"
	ReasonConflict           = "RESOURCE_VERSION_MISMATCH"
	ReasonExhausted          = "EXHAUSTED"
	ReasonThrottled          = "THROTTLED"
	ReasonUnavailable        = "UNAVAILABLE"
	ReasonCompacted          = "REVISION_COMPACTED"
	ReasonFailedPrecondition = "FAILED_PRECONDITION"
	ReasonPermissionDenied   = "PERMISSION_DENIED"
	ReasonUnauthenticated    = "UNAUTHENTICATED"
	ReasonInternal           = "INTERNAL"
	ReasonDeadlineExceeded   = "DEADLINE_EXCEEDED"
	ReasonCanceled           = "CANCELED"
)

// Reasons of a field violation.
const (
	ReasonRequired     = "REQUIRED"
	ReasonInvalid      = "INVALID"
	ReasonDuplicate    = "DUPLICATE"
	ReasonNotSupported = "NOT_SUPPORTED"
	ReasonForbidden    = "FORBIDDEN"
	ReasonTooLong      = "TOO_LONG"
	ReasonImmutable    = "IMMUTABLE"
)

// Keys of the ErrorInfo metadata.
const (
	metaKind    = "kind"
	metaName    = "name"
	metaOldest  = "oldest_revision"
	metaHave    = "have"
	metaWant    = "want"
	metaSubject = "what"
)

// Violation is one problem of one field.
type Violation struct {
	// Field is the path in the spelling of Kubernetes: spec.ports[0].nodePort.
	Field string
	// Reason is one of the field reasons of this package.
	Reason string
	// Message describes the problem and the correct values.
	Message string
}

// String renders the violation on one line.
func (v Violation) String() string {
	if v.Field == "" {
		return v.Message
	}
	return v.Field + ": " + v.Message
}

// Violations are all the problems of one object. The zero value is empty and ready to use.
type Violations []Violation

// Add appends a violation. It formats the message like fmt.Sprintf.
func (v *Violations) Add(field, reason, format string, args ...any) {
	msg := format
	if len(args) > 0 {
		msg = fmt.Sprintf(format, args...)
	}
	*v = append(*v, Violation{Field: field, Reason: reason, Message: msg})
}

// String joins the violations with "; ".
func (v Violations) String() string {
	parts := make([]string, len(v))
	for i := range v {
		parts[i] = v[i].String()
	}
	return strings.Join(parts, "; ")
}

// Error is an error with all the information that a caller needs to handle it. It is made by the
// functions of this package and must not be modified.
type Error struct {
	code       codes.Code
	reason     string
	message    string
	metadata   map[string]string
	violations Violations
	resource   bool // kind and name in metadata also go into a ResourceInfo
	retryAfter time.Duration
	cause      error
}

// Error implements error. The text includes the cause of an internal error and is meant for our
// logs. Callers get GRPCStatus, without the cause.
func (e *Error) Error() string {
	if e.cause != nil {
		return e.message + ": " + e.cause.Error()
	}
	return e.message
}

// Unwrap returns the cause of an internal error.
func (e *Error) Unwrap() error { return e.cause }

// Invalid returns an InvalidArgument error with all the violations of one object.
func Invalid(kind, name string, v Violations) error {
	return &Error{
		code: codes.InvalidArgument, reason: ReasonInvalidArgument,
		message:    fmt.Sprintf("%s is invalid: %s", object(kind, name), v),
		metadata:   objectMeta(kind, name),
		violations: append(Violations(nil), v...),
	}
}

// NotFound returns the error for an object that does not exist.
func NotFound(kind, name string) error {
	return &Error{
		code: codes.NotFound, reason: ReasonNotFound, resource: true,
		message:  object(kind, name) + " not found",
		metadata: objectMeta(kind, name),
	}
}

// AlreadyExists returns the error for creating an object that exists.
func AlreadyExists(kind, name string) error {
	return &Error{
		code: codes.AlreadyExists, reason: ReasonAlreadyExists, resource: true,
		message:  object(kind, name) + " already exists",
		metadata: objectMeta(kind, name),
	}
}

// Conflict returns the error for a change of an object that is based on resource version want,
// while the object is at version have. The caller must read the object again and retry.
func Conflict(kind, name string, have, want uint64) error {
	meta := objectMeta(kind, name)
	maps.Copy(meta, map[string]string{
		metaHave: strconv.FormatUint(have, 10),
		metaWant: strconv.FormatUint(want, 10),
	})
	return &Error{
		code: codes.Aborted, reason: ReasonConflict, resource: true,
		message: fmt.Sprintf("%s is at resource version %d, not %d: read it again and retry",
			object(kind, name), have, want),
		metadata: meta,
	}
}

// Exhausted returns the error for a limited resource, such as a pool, that has nothing left.
func Exhausted(what, msg string) error {
	return &Error{
		code: codes.ResourceExhausted, reason: ReasonExhausted,
		message: msg, metadata: map[string]string{metaSubject: what},
	}
}

// Throttled returns the error for a caller that exceeds a rate. limit names the limit. The caller
// may try again after the given time.
func Throttled(limit, msg string, retryAfter time.Duration) error {
	return &Error{
		code: codes.ResourceExhausted, reason: ReasonThrottled,
		message: msg, retryAfter: retryAfter, metadata: map[string]string{metaSubject: limit},
	}
}

// Unavailable returns the error for a request that may succeed later. If retryAfter is zero, the
// caller chooses the delay.
func Unavailable(msg string, retryAfter time.Duration) error {
	return &Error{
		code: codes.Unavailable, reason: ReasonUnavailable,
		message: msg, retryAfter: retryAfter,
	}
}

// OutOfRange returns the error for a request for revisions that are no longer stored. oldest is the
// first revision that can still be read. The caller must list again.
func OutOfRange(msg string, oldest uint64) error {
	return &Error{
		code: codes.OutOfRange, reason: ReasonCompacted,
		message:  msg,
		metadata: map[string]string{metaOldest: strconv.FormatUint(oldest, 10)},
	}
}

// FailedPrecondition returns the error for a valid request that the current state does not allow.
func FailedPrecondition(msg string) error {
	return &Error{code: codes.FailedPrecondition, reason: ReasonFailedPrecondition, message: msg}
}

// PermissionDenied returns the error for a caller without the permission for a request.
func PermissionDenied(msg string) error {
	return &Error{code: codes.PermissionDenied, reason: ReasonPermissionDenied, message: msg}
}

// Unauthenticated returns the error for a caller without a known identity.
func Unauthenticated(msg string) error {
	return &Error{code: codes.Unauthenticated, reason: ReasonUnauthenticated, message: msg}
}

// Internal returns the error for a fault in the server. The caller learns only that there was a
// fault; the log gets err. Internal(nil) is nil.
func Internal(err error) error {
	if err == nil {
		return nil
	}
	return &Error{
		code: codes.Internal, reason: ReasonInternal,
		message: "internal error", cause: err,
	}
}

func object(kind, name string) string {
	if name == "" {
		return kind
	}
	return fmt.Sprintf("%s %q", kind, name)
}

func objectMeta(kind, name string) map[string]string {
	return map[string]string{metaKind: kind, metaName: name}
}
