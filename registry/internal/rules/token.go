package rules

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

const (
	// tokenLife is the default lifetime of Tokens.
	tokenLife = 30 * 24 * time.Hour
	// maxTokenLife is the longest lifetime of a Token, a year. A token is a text in files of programs, which
	// no program renews. With a longest lifetime a forgotten copy becomes useless in the end, and once a year is
	// often enough for people to replace tokens by hand.
	maxTokenLife = 366 * 24 * time.Hour
)

// completeToken sets the default end of a new Token, and its creator. An update keeps the end and the
// creator of the old one.
func completeToken(w Context, o, old object.Object) apierr.Violations {
	token, _ := o.(*corev1.Token)
	spec := token.Spec // set by the kind's defaults
	if before, ok := old.(*corev1.Token); ok {
		if spec.Expires == nil {
			spec.Expires = proto.CloneOf(before.GetSpec().GetExpires())
		}
		if spec.CreatedBy == "" {
			spec.CreatedBy = before.GetSpec().GetCreatedBy()
		}
		return nil
	}
	spec.CreatedBy = w.Writer
	if spec.Expires == nil {
		spec.Expires = timestamppb.New(w.Now.Add(tokenLife))
	}
	return nil
}

// checkTokenLife checks that the end of a new Token is within the longest lifetime.
func checkTokenLife(w Context, o, old object.Object) (found apierr.Violations) {
	token, _ := o.(*corev1.Token)
	end := token.GetSpec().GetExpires()
	switch {
	case old != nil || end.CheckValid() != nil: // validation refuses it
	case !end.AsTime().After(w.Now):
		found.Add("spec.expires", apierr.ReasonInvalid, "invalid value: %s is in the past", end.AsTime().Format(time.RFC3339))
	case end.AsTime().After(w.Now.Add(maxTokenLife)):
		found.Add("spec.expires", apierr.ReasonInvalid, "invalid value: %s is more than 366 days from now", end.AsTime().Format(time.RFC3339))
	}
	return found
}
