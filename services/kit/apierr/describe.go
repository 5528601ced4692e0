package apierr

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
)

// Describe renders an error, local or received, for a person at a terminal: the problem, one line
// per violation, and the time of the next attempt if the error has one. Further lines of the
// message of another program are indented, so that they do not look like lines of this one.
func Describe(err error) string {
	if err == nil {
		return ""
	}
	st := ToStatus(err)
	if st.Code() == codes.Internal && !fromServer(err) {
		return err.Error() // a local error: the cause, which callers do not see, may be shown here
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
	b.WriteString(strings.ReplaceAll(st.Message(), "\n", "\n  "))
	if after, ok := RetryAfter(err); ok {
		fmt.Fprintf(&b, " (try again in %s)", after)
	}
	return b.String()
}

// fromServer reports whether err was received from a server, or is an error of this package without a
// cause.
func fromServer(err error) bool {
	if own, ok := errors.AsType[*Error](err); ok {
		return own.cause == nil
	}
	_, ok := errors.AsType[statusError](err)
	return ok
}
