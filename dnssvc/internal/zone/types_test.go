package zone

import "testing"

func TestTypeNames(t *testing.T) {
	if got, want := TypeNames("or"), "A, AAAA, SRV, PTR or CNAME"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
