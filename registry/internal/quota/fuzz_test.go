package quota

import (
	"slices"
	"testing"
)

// FuzzNamespaceQuota checks that an accepted limit is of a known resource and not negative, and
// that its text means the same.
func FuzzNamespaceQuota(f *testing.F) {
	for _, text := range []string{"shop:services=20", "*:services.nodeports=0", "shop:pods=-1", "shop:nodes=1", "=:", "a:b:services=1", "shop:services=+1", "shop:services=99999999999999999999", ":pods=1", "Shop !:pods=1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var q, again NamespaceQuota
		if q.UnmarshalText([]byte(text)) != nil {
			return
		}
		if q.Limit < 0 || q.Namespace == "" || !slices.Contains(resources(), q.Resource) {
			t.Fatalf("%q is accepted as %+v", text, q)
		}
		written, err := q.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		if err := again.UnmarshalText(written); err != nil || again != q {
			t.Fatalf("%q became %q, and then %+v, %v", text, written, again, err)
		}
	})
}
