package spec

import (
	"crypto/sha256"
	"slices"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
)

// TokenRoles lists the roles that a Token can have: the roles that may use the API of Kubernetes.
func TokenRoles() []identity.Role {
	return []identity.Role{identity.Operator, identity.Viewer, identity.Workload}
}

// DefaultToken sets an empty spec if there is none. The registry sets the default of the end.
func DefaultToken(t *corev1.Token) {
	if t.Spec == nil {
		t.Spec = &corev1.TokenSpec{}
	}
}

// ValidateToken checks a Token, except that its end is not too far off: the registry knows the time.
func ValidateToken(t *corev1.Token, _ Rules) apierr.Violations {
	var c checks
	spec := t.GetSpec()
	switch id, err := identity.ParsePath(identity.DefaultTrustDomain, spec.GetIdentity()); {
	case spec.GetIdentity() == "":
		c.required("spec.identity", "the identity that the token stands for, such as viewer or operator/shop")
	case err != nil:
		c.invalid("spec.identity", spec.GetIdentity(), "%s", err)
	case !slices.Contains(TokenRoles(), id.Role):
		c.invalid("spec.identity", spec.GetIdentity(), "tokens stand for operators, viewers and workloads")
	case id.Path() != spec.GetIdentity():
		c.invalid("spec.identity", spec.GetIdentity(), "want %s", id.Path())
	}
	if n := len(spec.GetSha256()); n == 0 {
		c.required("spec.sha256", "the SHA-256 of the secret")
	} else if n != sha256.Size { // a short one may be the secret itself, so it is not shown
		c.found.Add("spec.sha256", apierr.ReasonInvalid, "invalid value: want %d bytes, not %d", sha256.Size, n)
	}
	checkTime(&c, "spec.expires", spec.GetExpires())
	return c.found
}

// ValidateTokenUpdate checks that an update keeps the spec. If the identity or the end of a token could
// change, the token would not show the rights that its holder had at an earlier time.
func ValidateTokenUpdate(updated, old *corev1.Token, _ Rules) apierr.Violations {
	var c checks
	if !proto.Equal(updated.GetSpec(), old.GetSpec()) {
		c.forbidden("spec", "a Token does not change: delete it, and create another")
	}
	return c.found
}
