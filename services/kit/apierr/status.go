package apierr

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// GRPCStatus returns the status that callers of the API receive. Because of this method,
// status.FromError and status.Code support the errors of this package.
func (e *Error) GRPCStatus() *status.Status {
	st := status.New(e.code, e.message)
	with, err := st.WithDetails(e.details()...)
	if err != nil {
		return st // only fails for code OK, which no constructor uses
	}
	return with
}

func (e *Error) details() []protoadapt.MessageV1 {
	out := []protoadapt.MessageV1{
		&errdetails.ErrorInfo{Domain: Domain, Reason: e.reason, Metadata: e.metadata},
	}
	if len(e.violations) > 0 {
		bad := &errdetails.BadRequest{}
		for _, v := range e.violations {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
				Field: v.Field, Reason: v.Reason, Description: v.Message,
			})
		}
		out = append(out, bad)
	}
	if e.resource {
		out = append(out, &errdetails.ResourceInfo{
			ResourceType: e.metadata[metaKind], ResourceName: e.metadata[metaName],
			Description: e.message,
		})
	}
	if e.code == codes.ResourceExhausted {
		out = append(out, &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{
			{Subject: e.metadata[metaSubject], Description: e.message},
		}})
	}
	if e.retryAfter > 0 {
		out = append(out, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.retryAfter)})
	}
	return out
}

// ToStatus maps an error to a status. Errors of this package and statuses received from another
// daemon keep their code and details, also if they are wrapped. The errors of contexts keep their
// code. All other errors become Internal.
func ToStatus(err error) *status.Status {
	if err == nil {
		return status.New(codes.OK, "")
	}
	if carrier, ok := errors.AsType[statusError](err); ok {
		if st := carrier.GRPCStatus(); st.Code() != codes.OK {
			return withInfo(st)
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return newStatus(codes.DeadlineExceeded, ReasonDeadlineExceeded, "deadline exceeded")
	case errors.Is(err, context.Canceled):
		return newStatus(codes.Canceled, ReasonCanceled, "canceled")
	}
	return newStatus(codes.Internal, ReasonInternal, "internal error")
}

// FromFields returns the error that was sent in the fields of google.rpc.Status, as part of an
// answer. It is nil for code OK.
func FromFields(code int32, message string, details []*anypb.Any) error {
	return status.FromProto(&statuspb.Status{Code: code, Message: message, Details: details}).Err()
}

// statusError is the interface of *Error and the errors of the gRPC library.
type statusError interface {
	error
	GRPCStatus() *status.Status
}

// withInfo adds an ErrorInfo to a status that was not made by this package, for example the status of
// a refused connection to another daemon.
func withInfo(st *status.Status) *status.Status {
	for _, d := range st.Details() {
		if _, ok := d.(*errdetails.ErrorInfo); ok {
			return st
		}
	}
	with, err := st.WithDetails(&errdetails.ErrorInfo{Domain: Domain, Reason: CodeName(st.Code())})
	if err != nil {
		return st
	}
	return with
}

// CodeName returns a code in the spelling of reasons: DeadlineExceeded becomes DEADLINE_EXCEEDED.
func CodeName(c codes.Code) string {
	if c == codes.OK {
		return "OK"
	}
	var b strings.Builder
	for i, r := range c.String() {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}

func newStatus(code codes.Code, reason, message string) *status.Status {
	return (&Error{code: code, reason: reason, message: message}).GRPCStatus()
}

// Code returns the code that a caller of the API sees for err. It works on local and on received
// errors, and returns codes.OK for nil.
func Code(err error) codes.Code { return ToStatus(err).Code() }

// IsNotFound reports whether err says that an object does not exist.
func IsNotFound(err error) bool { return Code(err) == codes.NotFound }

// IsAlreadyExists reports whether err says that an object already exists.
func IsAlreadyExists(err error) bool { return Code(err) == codes.AlreadyExists }

// IsConflict reports whether err says that the object must be read again.
func IsConflict(err error) bool { return Code(err) == codes.Aborted }

// IsUnavailable reports whether the same request may succeed later.
func IsUnavailable(err error) bool { return Code(err) == codes.Unavailable }

// ViolationsOf returns the field violations of a local or received error.
func ViolationsOf(err error) Violations {
	bad, ok := detail[*errdetails.BadRequest](err)
	if !ok {
		return nil
	}
	out := make(Violations, 0, len(bad.GetFieldViolations()))
	for _, v := range bad.GetFieldViolations() {
		out = append(out, Violation{Field: v.GetField(), Reason: v.GetReason(), Message: v.GetDescription()})
	}
	return out
}

// ReasonOf returns the reason of err, or "" if it has none.
func ReasonOf(err error) string {
	info, _ := detail[*errdetails.ErrorInfo](err)
	return info.GetReason()
}

// ObjectOf returns the kind and the name of the object that err is about, such as "Service" and
// "default/web". They are empty if it is about none.
func ObjectOf(err error) (kind, name string) {
	info, _ := detail[*errdetails.ErrorInfo](err)
	return info.GetMetadata()[metaKind], info.GetMetadata()[metaName]
}

// RetryAfter returns the time to wait before the next attempt, if err has one.
func RetryAfter(err error) (time.Duration, bool) {
	info, ok := detail[*errdetails.RetryInfo](err)
	return info.GetRetryDelay().AsDuration(), ok
}

// OldestRevision returns the first revision that can still be read, if err was made by OutOfRange.
func OldestRevision(err error) (uint64, bool) {
	info, ok := detail[*errdetails.ErrorInfo](err)
	if !ok || info.GetReason() != ReasonCompacted {
		return 0, false
	}
	rev, perr := strconv.ParseUint(info.GetMetadata()[metaOldest], 10, 64)
	return rev, perr == nil
}

// detail returns the first detail of type D in err's status.
func detail[D any](err error) (D, bool) {
	var none D
	if err == nil {
		return none, false
	}
	for _, d := range ToStatus(err).Details() {
		if found, ok := d.(D); ok {
			return found, true
		}
	}
	return none, false
}
