package tokens_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"portolan.dev/kubeapi/internal/tokens"
	"portolan.dev/services/kit/bearer"
	"portolan.dev/services/kit/guard/guardtest"
)

// TestATokenThatPanicsLocksNobodyElseOut checks that other tokens are found.
func TestATokenThatPanicsLocksNobodyElseOut(t *testing.T) {
	w := guardtest.New(t)
	x := &table{tokens.New("portolan", nil, w.Guard), t, bearer.NewSecret()}
	w.BreakName("bad")
	x.put("bad", "1", time.Hour)
	x.put("ci", "2", time.Hour)
	for name, want := range map[string]codes.Code{"bad": codes.Unauthenticated, "ci": codes.OK} {
		if _, code := x.find(name); code != want {
			t.Errorf("%s: %s, want %s", name, code, want)
		}
	}
	w.Want("Token bad")
}
