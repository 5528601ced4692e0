package apierr

import (
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
)

// maxSummarized is the largest number of different problems in a summary.
const maxSummarized = 5

// Summary returns the reason of err for a record that must not have the content of objects. For an
// invalid object it lists the paths of the invalid fields, up to the first list or map, each with the
// reason of the violation, such as "spec.ports: DUPLICATE". It leaves out messages of violations, which
// may quote the field's value, and the ends of paths, which may have keys of maps with any characters.
// It returns "" for nil and for faults of the server, because their text belongs into the server's log.
func Summary(err error) string {
	if err == nil {
		return ""
	}
	code, message, violations := codes.OK, "", Violations(nil)
	if own, ok := errors.AsType[*Error](err); ok { // without the cost of a status
		code, message, violations = own.code, own.message, own.violations
	} else {
		st := ToStatus(err)
		code, message, violations = st.Code(), st.Message(), ViolationsOf(err)
	}
	switch code {
	case codes.InvalidArgument:
		return violations.summary()
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return ""
	}
	return message
}

func (v Violations) summary() string {
	var parts []string
	for i := range v {
		field, _, _ := strings.Cut(v[i].Field, "[")
		part := field + ": " + v[i].Reason
		if slices.Contains(parts, part) {
			continue
		}
		if len(parts) == maxSummarized {
			return strings.Join(parts, "; ") + "; and others"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}
