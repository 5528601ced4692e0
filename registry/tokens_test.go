package registry_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
)

func newToken(name string, end time.Time) *corev1.Token {
	token := &corev1.Token{Metadata: &corev1.ObjectMeta{Name: name}, Spec: &corev1.TokenSpec{Identity: "viewer", Sha256: make([]byte, 32)}}
	if !end.IsZero() {
		token.Spec.Expires = timestamppb.New(end)
	}
	return token
}

// TestTokensHaveAnEnd creates tokens with several ends.
func TestTokensHaveAnEnd(t *testing.T) {
	_, r := run(t)
	client, now := registryv1.NewTokenServiceClient(r), time.Now()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		end  time.Time
		want string
	}{
		"soon": {now.Add(time.Minute), ""}, "year": {now.Add(366 * day), ""}, "default": {time.Time{}, ""},
		"past": {now.Add(-time.Second), "is in the past"}, "never": {now.Add(367 * day), "is more than 366 days from now"}, "ages": {time.Unix(0, 0), "is in the past"},
	} {
		answer, err := client.CreateToken(within(t), &registryv1.CreateTokenRequest{Token: newToken(name, c.end)})
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		} else if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if life := answer.GetToken().GetSpec().GetExpires().AsTime().Sub(now); name == "default" && (life < 30*day || life > 31*day) {
			t.Errorf("by default a token lives for %s", life)
		}
	}
}

// TestTokensKnowTheirCreator creates tokens as an operator with the name of another operator in the field
// of the creator, and applies them again.
func TestTokensKnowTheirCreator(t *testing.T) {
	g := guard(t)
	conn := g.as("operator")
	client := registryv1.NewTokenServiceClient(conn)
	lie := newToken("ci", time.Time{})
	lie.Spec.CreatedBy = "operator/shop"
	created, err := client.CreateToken(within(t), &registryv1.CreateTokenRequest{Token: lie})
	if err != nil || created.GetToken().GetSpec().GetCreatedBy() != "operator" {
		t.Fatalf("%v, %v", created, err)
	}
	again := newToken("ci", time.Time{})
	again.Metadata.Labels = map[string]string{"a": "b"}
	applied, err := registryv1.NewApplyServiceClient(conn).Apply(within(t), &registryv1.ApplyRequest{Object: object.Wrap(again)})
	if spec := applied.GetObject().GetToken().GetSpec(); err != nil || spec.GetCreatedBy() != "operator" || !spec.GetExpires().AsTime().Equal(created.GetToken().GetSpec().GetExpires().AsTime()) {
		t.Errorf("%v, %v", applied, err)
	}
	if _, err := client.UpdateToken(within(t), &registryv1.UpdateTokenRequest{Token: lie}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("another creator: %v", err)
	}
}
