package apierr

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
)

// Describe renders err, ours or received, for a person at a terminal: what went
// wrong, one line per violation, and what to do next where that is known.
func Describe(err error) string {
	if err == nil {
		return ""
	}
	st := ToStatus(err)
	if st.Code() == codes.Internal && !received(err) {
		return err.Error() // a local error: the text kept from callers is ours to read
	}
	var b strings.Builder
	if v := ViolationsOf(err); len(v) > 0 {
		info, _ := detail[*errdetails.ErrorInfo](err)
		meta := info.GetMetadata()
		fmt.Fprintf(&b, "%s is invalid:", object(meta[metaKind], meta[metaName]))
		for _, one := range v {
			fmt.Fprintf(&b, "\n  %s", one)
		}
		return b.String()
	}
	b.WriteString(st.Message())
	if after, ok := RetryAfter(err); ok {
		fmt.Fprintf(&b, " (try again in %s)", after)
	}
	return b.String()
}

// received tells whether err came over the wire, or says no more than if it had.
func received(err error) bool {
	if own, ok := errors.AsType[*Error](err); ok {
		return own.cause == nil
	}
	_, ok := errors.AsType[statusError](err)
	return ok
}
