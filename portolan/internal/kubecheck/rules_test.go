package kubecheck

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"portolan.dev/services/spec"
)

// TestSelectorsAsKubernetes compares the parsing of valid and invalid selectors, drawn from the
// pieces of their syntax.
func TestSelectorsAsKubernetes(t *testing.T) {
	pieces := []string{"a", "b", "in", "notin", "x.io/a", "A-b_c", "-", "a--b", "=", "==", "!=", "!", "(", ")", ",", " ", ", ", "(a,b)", " in (", "a=b", "/"}
	sets := []map[string]string{{}, {"a": "b"}, {"a": "", "b": "a"}, {"in": "in", "notin": "a", "x.io/a": "b"}, {"A-b_c": "A-b_c", "a": "a--b"}}
	rapid.Check(t, func(t *rapid.T) {
		var text string
		for _, piece := range rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 9).Draw(t, "pieces") {
			text += piece
		}
		theirs, theirErr := labels.Parse(text)
		ours, ourErr := spec.ParseSelector(text)
		if (theirErr == nil) != (ourErr == nil) {
			t.Fatalf("%q: Kubernetes says %v, we say %v", text, theirErr, ourErr)
		}
		if theirErr != nil {
			return
		}
		for _, set := range sets {
			if theirs.Matches(labels.Set(set)) != ours.Matches(set) {
				t.Fatalf("%q and %v: Kubernetes says %v", text, set, theirs.Matches(labels.Set(set)))
			}
		}
	})
}

func TestNamesAsKubernetes(t *testing.T) {
	word := rapid.OneOf(
		rapid.StringMatching(`[a-zA-Z0-9./_-]{0,5}`), rapid.StringMatching(`[a-z0-9-]{0,16}`), rapid.StringMatching(`[a-z.]{0,8}/[a-z_.]{0,8}`),
		rapid.StringMatching(`[a-z0-9]{61,66}`), rapid.StringMatching(`([a-z]{50}\.){4,5}[a-z]{1,60}`), rapid.String(),
	)
	for _, rule := range []struct {
		name   string
		ours   func(string) string
		theirs func(string) []string
	}{
		{"label", spec.DNSLabel, validation.IsDNS1123Label},
		{"RFC 1035 label", spec.RFC1035Label, validation.IsDNS1035Label},
		{"subdomain", spec.DNSSubdomain, validation.IsDNS1123Subdomain},
		{"qualified name", spec.QualifiedName, validation.IsQualifiedName},
		{"label value", spec.LabelValue, validation.IsValidLabelValue},
		{"port name", spec.PortName, validation.IsValidPortName},
	} {
		t.Run(rule.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := word.Draw(t, "word")
				if theirs := rule.theirs(s); (len(theirs) == 0) != (rule.ours(s) == "") {
					t.Fatalf("%q: Kubernetes says %q, we say %q", s, theirs, rule.ours(s))
				}
			})
		})
	}
}
