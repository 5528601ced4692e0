package rules

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// revocationMargin is the time after a Revocation for which new certificates of its identity are
// denied too. A replica that has not read the Revocation yet could renew a stolen certificate at the
// same moment. Replicas look for changes every second, even if they are not woken.
const revocationMargin = 2 * time.Second

// completeRevocation sets the missing times of a new Revocation. An update keeps the times of the old one.
func completeRevocation(w Context, o, old object.Object) apierr.Violations {
	revocation, _ := o.(*corev1.Revocation)
	spec := revocation.Spec // set by the kind's defaults
	if before, ok := old.(*corev1.Revocation); ok {
		if spec.IssuedBefore == nil && before.GetSpec().GetIssuedBefore() != nil {
			spec.IssuedBefore = proto.CloneOf(before.GetSpec().GetIssuedBefore())
		}
		if spec.Expires == nil {
			spec.Expires = proto.CloneOf(before.GetSpec().GetExpires())
		}
		return nil
	}
	if spec.IssuedBefore == nil && spec.GetSerial() == "" {
		spec.IssuedBefore = timestamppb.New(w.Now.Add(revocationMargin))
	}
	if spec.Expires == nil {
		spec.Expires = timestamppb.New(w.Now.Add(w.RevocationTTL))
	}
	return nil
}
