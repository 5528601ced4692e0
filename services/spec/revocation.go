package spec

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
)

const (
	// maxRevocationReason is the longest reason of a Revocation, in bytes.
	maxRevocationReason = 256
	// maxSerial is the longest serial number of a certificate, in hexadecimal digits: 20 bytes, as
	// RFC 5280 limits it.
	maxSerial = 40
)

// DefaultRevocation writes the serial number in its canonical form. The registry sets the defaults
// of the times.
func DefaultRevocation(r *corev1.Revocation) {
	if r.Spec == nil {
		r.Spec = &corev1.RevocationSpec{}
	}
	r.Spec.Serial = CanonicalSerial(r.Spec.GetSerial())
}

// CanonicalSerial returns a serial number in hexadecimal digits without colons and leading zeros,
// and with small letters.
func CanonicalSerial(serial string) string {
	return strings.TrimLeft(strings.ToLower(strings.ReplaceAll(serial, ":", "")), "0")
}

// IdentityPrefix returns the beginning of the name of an object about an identity or a serial
// number, for generateName.
func IdentityPrefix(what string) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, what)
	return strings.Trim(safe, "-.") + "-"
}

// ValidateRevocation checks a new Revocation.
func ValidateRevocation(r *corev1.Revocation, _ Rules) apierr.Violations {
	var c checks
	spec := r.GetSpec()
	switch {
	case spec.GetIdentity() == "" && spec.GetSerial() == "":
		c.required("spec.identity", "the denied identity, such as nodeagent/n1, or spec.serial with the serial number of one certificate")
	case spec.GetIdentity() != "" && spec.GetSerial() != "":
		c.forbidden("spec.serial", "a Revocation has an identity or a serial number, not both")
	case spec.GetSerial() != "":
		checkSerial(&c, spec)
	default:
		if _, err := identity.ParsePath(identity.DefaultTrustDomain, spec.GetIdentity()); err != nil {
			c.invalid("spec.identity", spec.GetIdentity(), "%s", err)
		}
	}
	if len(spec.GetReason()) > maxRevocationReason {
		c.tooLong("spec.reason", maxRevocationReason)
	}
	checkTime(&c, "spec.issuedBefore", spec.GetIssuedBefore())
	checkTime(&c, "spec.expires", spec.GetExpires())
	return c.found
}

// checkTime checks a time that need not be given.
func checkTime(c *checks, field string, at *timestamppb.Timestamp) {
	if at == nil {
		return
	}
	if err := at.CheckValid(); err != nil {
		c.found.Add(field, apierr.ReasonInvalid, "invalid value: %s", err)
	}
}

func checkSerial(c *checks, spec *corev1.RevocationSpec) {
	if len(spec.GetSerial()) > maxSerial || strings.Trim(spec.GetSerial(), "0123456789abcdef") != "" {
		c.invalid("spec.serial", spec.GetSerial(), "want the serial number of a certificate: up to %d hexadecimal digits", maxSerial)
	}
	if spec.GetIssuedBefore() != nil {
		c.forbidden("spec.issuedBefore", "a serial number is one of a single certificate, whenever it was issued")
	}
}

// ValidateRevocationUpdate checks that an update keeps the spec. If a Revocation could change, it would
// not show which certificates were denied at an earlier time.
func ValidateRevocationUpdate(updated, old *corev1.Revocation, _ Rules) apierr.Violations {
	var c checks
	if !proto.Equal(updated.GetSpec(), old.GetSpec()) {
		c.forbidden("spec", "a Revocation does not change: delete it, and create another")
	}
	return c.found
}

// Denies returns the certificates that a Revocation denies, as text for people.
func Denies(r *corev1.Revocation) string {
	if serial := r.GetSpec().GetSerial(); serial != "" {
		return fmt.Sprintf("serial %s", serial)
	}
	return r.GetSpec().GetIdentity()
}
