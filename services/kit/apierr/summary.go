package apierr

import (
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
)

// maxSummarized is the largest number of different problems in a summary.
const maxSummarized = 5

// Summary returns the reason of err for a record that must not have the content of objects. Of an
// invalid object it has the fields up to the first list or map, and what is wrong with each, such
// as "spec.ports: DUPLICATE". The message of a violation may quote the field's value, and its path
// may have the key of a map, which has any characters. Summary is empty for faults of the server,
// whose text is for the log, and for nil.
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
