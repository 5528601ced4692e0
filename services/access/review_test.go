package access_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"portolan.dev/services/access"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/spec"
)

// TestReviews lists, for each identity that may use the API of Kubernetes, the verbs of each kind that a
// review calls allowed: in all namespaces, in the identity's own one and in another. The list is
// testdata/reviews.txt.
func TestReviews(t *testing.T) {
	var list bytes.Buffer
	for _, path := range []string{"operator", "operator/shop", "viewer", "viewer/shop", "workload/n1", "workload/n1/shop"} {
		id, err := identity.ParsePath(identity.DefaultTrustDomain, path)
		if err != nil {
			t.Fatal(err)
		}
		ctx := identity.Represent(t.Context(), id)
		for _, kind := range kinds.All {
			if !kind.InKubernetes {
				continue
			}
			for _, namespace := range []string{"", "shop", "other"} {
				var may []string
				for _, verb := range []kinds.Verb{kinds.Get, kinds.List, kinds.Watch, kinds.Create, kinds.Update, kinds.UpdateStatus, kinds.Delete} {
					if verb == kinds.UpdateStatus && !kind.HasStatus() {
						continue
					}
					if access.Review(ctx, kind, verb, namespace) == "" {
						may = append(may, string(verb))
					}
				}
				fmt.Fprintf(&list, "%-16s %-13s %-5s  %s\n", path, kind.Name, namespace, cmp.Or(strings.Join(may, " "), "-"))
			}
		}
	}
	golden := filepath.Join("testdata", "reviews.txt")
	if *update {
		if err := os.WriteFile(golden, list.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(list.Bytes(), want) {
		t.Errorf("the reviews are others; look at them and write them with -update:\n%s", list.String())
	}
	service, _ := kinds.Named("Service")
	if reason := access.Review(t.Context(), service, kinds.Delete, "shop"); reason != "" {
		t.Errorf("without TLS: %s", reason)
	}
}

// TestTokensAreOfRepresentedRoles checks that every role that a token can stand for may use the API of
// Kubernetes, and no other.
func TestTokensAreOfRepresentedRoles(t *testing.T) {
	may := map[identity.Role]bool{}
	for _, role := range spec.TokenRoles() {
		may[role] = true
	}
	for _, role := range identity.Roles() {
		if err := access.CheckRepresented(identity.ID{TrustDomain: "portolan", Role: role}); (err == nil) != may[role] {
			t.Errorf("%s: %v", role, err)
		}
	}
}
