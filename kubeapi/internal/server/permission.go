package server

import (
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"

	"portolan.dev/kubeapi/internal/resource"
	"portolan.dev/services/access"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
)

// callsOf lists the methods of the registry that a request with a verb calls.
var callsOf = map[string][]kinds.Verb{
	verbGet: {kinds.Get}, verbList: {kinds.List}, verbWatch: {kinds.Watch}, verbCreate: {kinds.Create}, verbUpdate: {kinds.Get, kinds.Update},
	verbPatch: {kinds.Get, kinds.Update}, verbDelete: {kinds.Delete}, verbDeleteCollection: {kinds.List, kinds.Delete},
}

// statusCallsOf is callsOf for the subresource status.
var statusCallsOf = map[string][]kinds.Verb{
	verbGet: {kinds.Get}, verbUpdate: {kinds.Get, kinds.UpdateStatus}, verbPatch: {kinds.Get, kinds.UpdateStatus},
}

// mayUse returns the reason why the client may not use a verb of a resource, or of one of its subresources,
// in a namespace. It returns "" if the client may. Requests are authorized in the same way, except that some
// decisions depend on the object.
func (req *request) mayUse(r *resource.Resource, subresource, verb, namespace string) string {
	calls, verbs := callsOf[verb], r.Verbs()
	if subresource != "" {
		verbs = r.Subresources()[subresource]
		if subresource == subStatus {
			calls = statusCallsOf[verb]
		}
	}
	switch {
	case !slices.Contains(verbs, verb) && r.Codec == nil && !r.IsReview():
		return "Portolan has no " + r.Plural + ": lists of them are empty, and they cannot be written"
	case !slices.Contains(verbs, verb):
		return "Portolan has nothing like it"
	case r.Codec == nil:
		return "" // every client with an identity may read empty lists and create reviews
	}
	for _, call := range calls {
		if reason := access.Review(req.ctx, r.Codec.Kind, call, namespace); reason != "" {
			return reason
		}
	}
	return ""
}

// authorizeAll returns an error if the request needs several calls of the registry and the client may not
// make all of them. The registry authorizes each call anyway. Without this check, a client that may only
// read could get the answer that there is nothing to delete or to change.
func (req *request) authorizeAll() error {
	if req.resource.Codec == nil || len(callsOf[req.verb]) == 1 {
		return nil
	}
	if reason := req.mayUse(req.resource, req.subresource, req.verb, req.namespace); reason != "" {
		return apierr.PermissionDenied(reason)
	}
	return nil
}

// anything stands for all verbs, groups, versions or resources.
const anything = "*"

// reviewResource returns the reason why the client may not make a request for a resource, or "" if it may.
// An asterisk stands for all verbs, or all resources, that the server has.
func (req *request) reviewResource(of *authorizationv1.ResourceAttributes) string {
	reason := "Portolan has nothing like it"
	for _, r := range resource.All {
		if !matches(of.Group, r.Kind.Group) || !matches(of.Resource, r.Plural) || of.Version != "" && !matches(of.Version, r.Kind.Version) {
			continue
		}
		verbs := []string{of.Verb}
		if of.Verb == anything {
			verbs = r.Verbs()
			if of.Subresource != "" {
				verbs = r.Subresources()[of.Subresource]
			}
		}
		for _, verb := range verbs {
			if reason = req.mayUse(r, of.Subresource, verb, of.Namespace); reason != "" {
				return reason
			}
		}
	}
	return reason
}

func matches(pattern, text string) bool { return pattern == anything || pattern == text }
