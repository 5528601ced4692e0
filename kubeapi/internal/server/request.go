package server

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"portolan.dev/kubeapi/internal/resource"
)

// The verbs of requests.
const (
	verbGet              = "get"
	verbList             = "list"
	verbWatch            = "watch"
	verbCreate           = "create"
	verbUpdate           = "update"
	verbPatch            = "patch"
	verbDelete           = "delete"
	verbDeleteCollection = "deletecollection"
)

// The subresources.
const (
	subStatus   = "status"
	subFinalize = "finalize"
)

// request is a request for a resource, and its answer.
type request struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context //nolint:containedctx // it has the identity of the client, and lives as long as the request
	query  url.Values
	begun  time.Time
	client Client // the zero value without TLS

	verb        string
	resource    *resource.Resource // nil if the path is not a path of a resource
	namespace   string
	name        string
	subresource string

	bodyRead bool // the body was read up to its end
	code     int  // HTTP code of the answer; 0 before it begins
}

// errUnknownPath is the error for a path without a resource.
var errUnknownPath = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Details: &metav1.StatusDetails{},
	Message: "the server could not find the requested resource",
}}

// errNotAllowed is the error for a method that a path does not have.
var errNotAllowed = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed, Details: &metav1.StatusDetails{},
	Message: "the server does not allow this method on the requested resource",
}}

// maxSegments is the largest number of segments of a path: apis, group, version, namespaces, namespace,
// resource, name, subresource.
const maxSegments = 8

// route finds the resource and the verb of a request:
//
//	/api/v1/RESOURCE[/NAME[/SUBRESOURCE]]
//	/api/v1/namespaces/NAMESPACE/RESOURCE[/NAME[/SUBRESOURCE]]
//	/apis/GROUP/VERSION/…
func (req *request) route() error {
	segments := strings.SplitN(strings.Trim(req.r.URL.Path, "/"), "/", maxSegments+1)
	var version schema.GroupVersion
	switch {
	case len(segments) > maxSegments:
		return errUnknownPath
	case len(segments) >= 3 && segments[0] == "api":
		version.Version, segments = segments[1], segments[2:]
	case len(segments) >= 4 && segments[0] == "apis":
		version, segments = schema.GroupVersion{Group: segments[1], Version: segments[2]}, segments[3:]
	default:
		return errUnknownPath
	}
	if len(segments) >= 3 && segments[0] == "namespaces" && segments[2] != subStatus && segments[2] != subFinalize {
		req.namespace, segments = segments[1], segments[2:]
	}
	found, ok := resource.Find(version, segments[0])
	if !ok || len(segments) > 3 || req.namespace != "" && !found.Namespaced {
		return errUnknownPath
	}
	req.resource = found
	if len(segments) > 1 {
		req.name = segments[1]
	}
	if len(segments) > 2 {
		req.subresource = segments[2]
	}
	return req.findVerb()
}

// findVerb finds the verb by the method, and checks that the resource has it.
func (req *request) findVerb() error {
	object := req.name != ""
	switch method := req.r.Method; {
	case (method == http.MethodGet || method == http.MethodHead) && object:
		req.verb = verbGet
	case method == http.MethodGet || method == http.MethodHead:
		req.verb = verbList
		if boolean(req.query, "watch") {
			req.verb = verbWatch
		}
	case method == http.MethodPost && !object:
		req.verb = verbCreate
	case method == http.MethodPut && object:
		req.verb = verbUpdate
	case method == http.MethodPatch && object:
		req.verb = verbPatch
	case method == http.MethodDelete && object:
		req.verb = verbDelete
	case method == http.MethodDelete:
		req.verb = verbDeleteCollection
	default:
		return errNotAllowed
	}
	return req.checkVerb()
}

func (req *request) checkVerb() error {
	reads := req.verb == verbGet || req.verb == verbList || req.verb == verbWatch
	switch {
	case req.resource.IsReview():
		if req.verb != verbCreate {
			return errNotAllowed
		}
		return nil
	case req.resource.Codec == nil && !reads:
		return req.missing()
	case req.subresource == subStatus && req.resource.HasStatus() && (req.verb == verbGet || req.verb == verbUpdate || req.verb == verbPatch):
		return nil
	case req.subresource == subFinalize && req.resource.IsNamespaces() && req.verb == verbUpdate:
		return nil
	case req.subresource == subFinalize && req.resource.IsNamespaces():
		return errNotAllowed
	case req.subresource != "":
		return errUnknownPath
	case reads:
		return nil
	case !slices.Contains(req.resource.Verbs(), req.verb):
		return errNotAllowed
	case req.resource.Namespaced && req.namespace == "":
		return errNotAllowed
	}
	return nil
}

// missing returns the error for a write of a kind that Portolan lacks.
func (req *request) missing() error {
	err := apierrors.NewMethodNotSupported(req.resource.GroupResource(), req.verb)
	err.ErrStatus.Message = "Portolan has no " + req.resource.Plural + ": lists of them are empty, and they cannot be written"
	return err
}

// badRequest returns the error for a malformed request.
func badRequest(format string, args ...any) error {
	return apierrors.NewBadRequest(fmt.Sprintf(format, args...))
}
