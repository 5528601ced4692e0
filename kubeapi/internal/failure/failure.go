package failure

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"portolan.dev/kubeapi/internal/resource"
	"portolan.dev/services/kit/apierr"
)

// StatusOf returns the Status of an error of a request for an object of a resource. The resource may be
// nil, and the name empty.
func StatusOf(err error, of *resource.Resource, name string) *metav1.Status {
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		status := known.Status()
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		return &status
	}
	status := statusOf(err, of, name)
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if after, ok := apierr.RetryAfter(err); ok {
		details(status).RetryAfterSeconds = max(1, int32(after.Seconds()))
	}
	return status
}

func statusOf(err error, of *resource.Resource, name string) *metav1.Status {
	code := apierr.Code(err)
	message := apierr.ToStatus(err).Message()
	if violations := apierr.ViolationsOf(err); len(violations) > 0 {
		return invalid(violations, of, name)
	}
	if reader, ok := errors.AsType[*http.MaxBytesError](err); ok {
		status := apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", reader.Limit)).Status()
		return &status
	}
	status := &metav1.Status{Status: metav1.StatusFailure, Message: message}
	set := func(code int32, reason metav1.StatusReason) { status.Code, status.Reason = code, reason }
	switch code {
	case codes.NotFound:
		return refer(apierrors.NewNotFound, err, of, name)
	case codes.AlreadyExists:
		return refer(apierrors.NewAlreadyExists, err, of, name)
	case codes.Aborted:
		set(http.StatusConflict, metav1.StatusReasonConflict)
		status.Message = fmt.Sprintf("Operation cannot be fulfilled on %s %q: the object has been modified; please apply your changes to the latest version and try again", plural(of), name)
	case codes.InvalidArgument:
		set(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	case codes.OutOfRange:
		set(http.StatusGone, metav1.StatusReasonExpired)
	case codes.PermissionDenied:
		set(http.StatusForbidden, metav1.StatusReasonForbidden)
	case codes.Unauthenticated:
		set(http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
	case codes.ResourceExhausted:
		// A client tries again after 429, which helps if it was too fast and not if a pool is empty.
		set(http.StatusForbidden, metav1.StatusReasonForbidden)
		if apierr.ReasonOf(err) == apierr.ReasonThrottled {
			set(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
		}
	case codes.FailedPrecondition:
		set(http.StatusConflict, metav1.StatusReasonConflict)
	case codes.DeadlineExceeded:
		set(http.StatusGatewayTimeout, metav1.StatusReasonTimeout)
	case codes.Unavailable, codes.Canceled:
		set(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
	default:
		set(http.StatusInternalServerError, metav1.StatusReasonInternalError)
	}
	describe(status, of, name)
	return status
}

// refer returns the Status of an error about the existence of an object. The Status names the object that
// the error names, which may be the namespace of the requested object.
func refer(build func(schema.GroupResource, string) *apierrors.StatusError, err error, of *resource.Resource, name string) *metav1.Status {
	kind, path := apierr.ObjectOf(err)
	if named, ok := resource.OfKind(kind); ok && (of == nil || of.Codec == nil || of.Codec.Kind.Name != kind) {
		of, name = named, path[strings.LastIndex(path, "/")+1:]
	}
	status := build(groupResource(of), name).Status()
	return &status
}

// cause is Kubernetes' form of a violation: the type of the cause, and the word that its message begins
// with. prefix is the beginning of the registry's message.
type cause struct {
	kind         metav1.CauseType
	word, prefix string
}

// causes are the causes by the reason of a violation.
var causes = map[string]cause{
	apierr.ReasonRequired:     {metav1.CauseTypeFieldValueRequired, "Required value", "required"},
	apierr.ReasonInvalid:      {metav1.CauseTypeFieldValueInvalid, "Invalid value", "invalid value"},
	apierr.ReasonImmutable:    {metav1.CauseTypeFieldValueInvalid, "Invalid value", "invalid value"},
	apierr.ReasonDuplicate:    {metav1.CauseTypeFieldValueDuplicate, "Duplicate value", "duplicate value"},
	apierr.ReasonNotSupported: {metav1.CauseTypeFieldValueNotSupported, "Unsupported value", "unsupported value"},
	apierr.ReasonForbidden:    {"FieldValueForbidden", "Forbidden", "forbidden"},
	apierr.ReasonTooLong:      {"FieldValueTooLong", "Too long", "too long"},
}

// causeOf returns the cause for a violation.
func causeOf(v apierr.Violation) metav1.StatusCause {
	of, known := causes[v.Reason]
	if !known {
		return metav1.StatusCause{Field: v.Field, Message: v.Message}
	}
	rest := strings.TrimLeft(strings.TrimPrefix(v.Message, of.prefix), ": ")
	return metav1.StatusCause{Type: of.kind, Field: v.Field, Message: of.word + ": " + rest}
}

// invalid returns the Status of an object with violations. Violations of a request's options are a bad
// request.
func invalid(violations apierr.Violations, of *resource.Resource, name string) *metav1.Status {
	status := &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid}
	texts := make([]string, 0, len(violations))
	describe(status, of, name)
	for _, v := range violations {
		switch v.Field {
		case "label_selector", "field_selector", "page_token":
			return badRequest(v.Message)
		case "metadata.namespace":
			if status := terminating(v, of, name); status != nil {
				return status
			}
		}
		one := causeOf(v)
		status.Details.Causes = append(status.Details.Causes, one)
		texts = append(texts, one.Field+": "+one.Message)
	}
	status.Message = fmt.Sprintf("%s %q is invalid: %s", kindName(of), name, strings.Join(texts, ", "))
	if len(texts) > 1 {
		status.Message = fmt.Sprintf("%s %q is invalid: [%s]", kindName(of), name, strings.Join(texts, ", "))
	}
	return status
}

// terminating returns the Status for an object in a namespace that is being deleted. It returns nil for
// any other violation.
func terminating(v apierr.Violation, of *resource.Resource, name string) *metav1.Status {
	var namespace string
	if _, err := fmt.Sscanf(v.Message, "forbidden: namespace %q is being deleted", &namespace); err != nil {
		return nil
	}
	status := apierrors.NewForbidden(groupResource(of), name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace)).Status()
	status.Details.Causes = []metav1.StatusCause{{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", namespace), Field: v.Field,
	}}
	return &status
}

func badRequest(message string) *metav1.Status {
	status := apierrors.NewBadRequest(message).Status()
	return &status
}

func details(status *metav1.Status) *metav1.StatusDetails {
	if status.Details == nil {
		status.Details = &metav1.StatusDetails{}
	}
	return status.Details
}

func describe(status *metav1.Status, of *resource.Resource, name string) {
	d := details(status)
	d.Name = name
	if of == nil {
		return
	}
	d.Group, d.Kind = of.Kind.Group, of.Plural
	if status.Reason == metav1.StatusReasonInvalid {
		d.Kind = of.Kind.Kind
	}
}
