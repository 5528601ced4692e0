package cli

import (
	"bytes"
	"strings"
	"testing"

	corev1 "portolan.dev/api/core/v1"
)

// TestDiffOfASecret checks that a difference of Secrets has the sizes of the data and nothing else of
// them, and that a change of the same size shows.
func TestDiffOfASecret(t *testing.T) {
	secret := func(data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{Metadata: &corev1.ObjectMeta{Name: "shop"}, Type: "Opaque", Data: data}
	}
	before := secret(map[string][]byte{"key": []byte("old key"), "kept": []byte("kept"), "1": []byte("gone")})
	after := secret(map[string][]byte{"key": []byte("new key"), "kept": []byte("kept"), "more": []byte("more")})
	var out bytes.Buffer
	if differs, err := printDiff(&out, before, after); err != nil || !differs {
		t.Fatalf("%v, %v", differs, err)
	}
	for _, want := range []string{
		"-  key: *** (7 bytes, stored)\n", "+  key: *** (7 bytes, applied)\n", "-  \"1\": *** (4 bytes)\n", "+  more: *** (4 bytes)\n", "   kept: *** (4 bytes)\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if differs, err := printDiff(&out, after, after); differs || err != nil {
		t.Errorf("with itself: %v, %v", differs, err)
	}
	if string(after.GetData()["key"]) != "new key" {
		t.Error("the object was changed")
	}
}
