package server

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"portolan.dev/kubeapi/internal/resource"
	"portolan.dev/kubeapi/internal/wire"
	"portolan.dev/services/kit/identity"
)

// review answers a question of the client about itself. Nothing is stored.
func (req *request) review() error {
	w, err := req.newWriting()
	if err != nil {
		return err
	}
	format, err := wire.Negotiate(req.r)
	if err != nil {
		return err
	}
	body, err := req.body()
	if err != nil {
		return err
	}
	o := req.resource.Review()
	strict, err := wire.Decode(body, wire.MediaType(req.r), req.resource.Kind, o)
	if err == nil {
		err = w.checkStrict(strict)
	}
	if err == nil {
		err = req.invalidReview(checkMetadata(o))
	}
	if err == nil {
		err = req.answerReview(o)
	}
	if err != nil {
		return err
	}
	return req.send(http.StatusCreated, format, o)
}

// checkMetadata returns an error if a review has metadata, because a review is not stored.
func checkMetadata(o resource.Review) *field.Error {
	meta, _ := o.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
	present := *meta.DeepCopy()
	present.ManagedFields = nil
	if equality.Semantic.DeepEqual(present, metav1.ObjectMeta{}) {
		return nil
	}
	return field.Invalid(field.NewPath("metadata"), "", "must be empty")
}

func (req *request) invalidReview(mistake *field.Error) error {
	if mistake == nil {
		return nil
	}
	return apierrors.NewInvalid(req.resource.Kind.GroupKind(), "", field.ErrorList{mistake})
}

// answerReview sets the status of a review.
func (req *request) answerReview(o resource.Review) error {
	switch o := o.(type) {
	case *authenticationv1.SelfSubjectReview:
		o.Status = authenticationv1.SelfSubjectReviewStatus{UserInfo: req.userInfo()}
	case *authorizationv1.SelfSubjectAccessReview:
		status, mistake := req.reviewAccess(&o.Spec)
		o.Status = status
		return req.invalidReview(mistake)
	case *authorizationv1.SelfSubjectRulesReview:
		if o.Spec.Namespace == "" {
			return badRequest("no namespace on request")
		}
		o.Status = authorizationv1.SubjectRulesReviewStatus{
			ResourceRules:    req.resourceRules(o.Spec.Namespace),
			NonResourceRules: []authorizationv1.NonResourceRule{{Verbs: []string{"get", "head"}, NonResourceURLs: slices.Sorted(maps.Keys(documents()))}},
		}
	}
	return nil
}

// unsecured is the name of all clients of a server without TLS, which have all permissions. Kubernetes' former
// insecure port used the same name.
const unsecured = "system:unsecured"

// userInfo returns the client's identity in Kubernetes' form.
func (req *request) userInfo() authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: unsecured, Groups: []string{"system:authenticated"}}
	if id, err := identity.Caller(req.ctx); err == nil {
		info.Username = id.Path()
	}
	if req.client.Token != "" {
		info.Extra = map[string]authenticationv1.ExtraValue{"portolan.dev/token": {req.client.Token}}
	}
	return info
}

// reviewAccess answers whether the client may make a request.
func (req *request) reviewAccess(spec *authorizationv1.SelfSubjectAccessReviewSpec) (status authorizationv1.SubjectAccessReviewStatus, mistake *field.Error) {
	of, path := spec.ResourceAttributes, spec.NonResourceAttributes
	if (of == nil) == (path == nil) {
		return status, field.Invalid(field.NewPath("spec", "resourceAttributes"), "", "exactly one of nonResourceAttributes or resourceAttributes must be specified")
	}
	reason := ""
	if path != nil {
		reason = reviewPath(path)
	} else {
		reason = req.reviewResource(of)
	}
	return authorizationv1.SubjectAccessReviewStatus{Allowed: reason == "", Reason: reason}, nil
}

// reviewPath returns the reason why a path without a resource cannot be read, or "". Every client with an
// identity may read all documents.
func reviewPath(of *authorizationv1.NonResourceAttributes) string {
	verb := strings.ToLower(of.Verb)
	switch _, known := documents()[of.Path]; {
	case !known:
		return "Portolan has no such path"
	case verb != "get" && verb != "head":
		return "the document can only be read"
	}
	return ""
}

// resourceRules returns the verbs that the client may use in a namespace, for all resources.
func (req *request) resourceRules(namespace string) []authorizationv1.ResourceRule {
	var rules []authorizationv1.ResourceRule
	add := func(group, name string, verbs []string) {
		if len(verbs) == 0 {
			return
		}
		same := slices.IndexFunc(rules, func(rule authorizationv1.ResourceRule) bool {
			return rule.APIGroups[0] == group && slices.Equal(rule.Verbs, verbs)
		})
		if same < 0 {
			rules = append(rules, authorizationv1.ResourceRule{Verbs: verbs, APIGroups: []string{group}, Resources: []string{name}})
			return
		}
		rules[same].Resources = append(rules[same].Resources, name)
	}
	for _, r := range resource.All {
		allowed := func(verbs []string, sub string) (found []string) {
			for _, verb := range verbs {
				if req.mayUse(r, sub, verb, namespace) == "" {
					found = append(found, verb)
				}
			}
			return found
		}
		add(r.Kind.Group, r.Plural, allowed(r.Verbs(), ""))
		subs := r.Subresources()
		for _, sub := range slices.Sorted(maps.Keys(subs)) {
			add(r.Kind.Group, r.Plural+"/"+sub, allowed(subs[sub], sub))
		}
	}
	return rules
}
