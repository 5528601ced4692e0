package storetest

import (
	"testing"

	"portolan.dev/registry/store"
)

// installation returns the identity of a store's installation.
func installation(t testing.TB, s store.Store) string {
	t.Helper()
	id, err := s.Installation(t.Context())
	if err != nil || id == "" {
		t.Fatalf("installation %q, %v", id, err)
	}
	return id
}

// testInstallation checks that the identity of the installation is the same for all replicas, and stays
// through everything that changes the log.
func testInstallation(t *testing.T, place Location) {
	first := place.Open(t)
	made := installation(t, first)
	if _, err := first.NewEpoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Restore(t.Context(), head(t, first).Revision, 1, rowsOf(nil)); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	all := replicas(t, place, 2)
	for i, s := range all {
		if got := installation(t, s); got != made {
			t.Errorf("replica %d is of %s, not %s", i, got, made)
		}
	}
	if err := all[0].SetInstallation(t.Context(), "another"); err != nil {
		t.Fatal(err)
	}
	if got := installation(t, all[len(all)-1]); got != "another" {
		t.Errorf("after a change it is %s", got)
	}
}
