package history

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
)

// TestSetOutcome checks that a write counts as refused only if it cannot have been committed.
func TestSetOutcome(t *testing.T) {
	for code, want := range map[codes.Code]Outcome{
		codes.OK: OK, codes.NotFound: Refused, codes.AlreadyExists: Refused,
		codes.Aborted: Refused, codes.InvalidArgument: Refused, codes.ResourceExhausted: Refused,
		codes.Unavailable: Unknown, codes.DeadlineExceeded: Unknown, codes.Canceled: Unknown,
		codes.Internal: Unknown, codes.Unknown: Unknown,
	} {
		var c Call
		stored := &corev1.Pod{Metadata: &corev1.ObjectMeta{Uid: "u", ResourceVersion: 7}}
		if code == codes.OK {
			c.SetOutcome(stored, nil)
		} else {
			c.SetOutcome(nil, status.Error(code, "no"))
		}
		if c.Outcome != want || c.Code != code {
			t.Errorf("%s: the outcome is %d with %s, want %d", code, c.Outcome, c.Code, want)
		}
		if known := c.Result == (Version{UID: "u", Revision: 7}); known != (code == codes.OK) {
			t.Errorf("%s: found %+v", code, c.Result)
		}
	}
}
