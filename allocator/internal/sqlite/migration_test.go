package sqlite_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"portolan.dev/services/kit/sqldb"

	"portolan.dev/allocator/internal/sqlite"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// TestClaimsMoveIntoTheirHoldings opens a database from the time before claims were a part of their
// allocation.
func TestClaimsMoveIntoTheirHoldings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	makeFirst(t, path)
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var got []store.Allocation
	var pools []store.Pool
	if err := s.Snapshot(t.Context(), func(content store.Snapshot) error {
		pools = content.Pools
		for h, err := range content.Allocations {
			if err != nil {
				return err
			}
			got = append(got, h)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := []store.Allocation{
		{Value: pool.PortValue(30001), Pool: "ports", Owner: store.Owner{UID: "u1", Kind: "Service", Namespace: "ns", Name: "x"}, Claims: []store.Claim{
			{Slot: "a", Confirmed: true, Since: time.UnixMilli(1000)}, {Slot: "b", Since: time.UnixMilli(2000)},
		}},
		{Value: pool.PortValue(30002), Pool: "ports", Owner: store.Owner{UID: "u2"}, Released: time.UnixMilli(3000)},
	}
	if !slices.EqualFunc(got, want, sameHolding) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
	if len(pools) != 1 || pools[0].Name != "ports" || pools[0].PerProtocol {
		t.Errorf("pools %+v; want the one of before, with numbers of all protocols", pools)
	}
}

func sameHolding(x, y store.Allocation) bool {
	return x.Value == y.Value && x.Pool == y.Pool && x.Owner == y.Owner && x.Released.Equal(y.Released) &&
		slices.EqualFunc(x.Claims, y.Claims, func(a, b store.Claim) bool {
			return a.Slot == b.Slot && a.Confirmed == b.Confirmed && a.Since.Equal(b.Since)
		})
}

// makeFirst creates a database with the first migration only.
func makeFirst(t *testing.T, path string) {
	t.Helper()
	db, err := sqldb.OpenEmbedded(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const first = "0001_init.sql"
	content, err := fs.ReadFile(os.DirFS("migrations"), first)
	if err != nil {
		t.Fatal(err)
	}
	if err := sqldb.Migrate(t.Context(), db.Writer, sqldb.SQLite, "allocator", fstest.MapFS{first: {Data: content}}); err != nil {
		t.Fatal(err)
	}
	for _, insert := range []string{
		`INSERT INTO pools VALUES ('ports', 2, '30000-30099', 1, 0)`,
		`INSERT INTO holdings VALUES (x'7531', 'ports', 'u1', 'Service', 'ns', 'x', 0), (x'7532', 'ports', 'u2', '', '', '', 3000)`,
		`INSERT INTO claims VALUES (x'7531', 'b', 0, 2000), (x'7531', 'a', 1, 1000)`,
	} {
		if _, err := db.Writer.ExecContext(t.Context(), insert); err != nil {
			t.Fatal(err)
		}
	}
}
