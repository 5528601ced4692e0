package program

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"

	"portolan.dev/allocator"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/sqldb"
)

func TestMain(m *testing.M) { kittest.Main(m) }

func open(t *testing.T, where string) store.Store {
	t.Helper()
	s, err := openStore(t.Context(), allocator.Config{Store: where}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t *testing.T, s store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func present(t *testing.T, s store.Store) (at store.Position, reserves int) {
	t.Helper()
	if err := s.Snapshot(t.Context(), func(content store.Snapshot) error {
		at, reserves = content.Position, len(content.Reserves)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return at, reserves
}

// fill stores a pool of addresses and one of ports, a value with two claims, one at rest, and one in
// a reserve.
func fill(t *testing.T, s store.Store) {
	t.Helper()
	ip, err := pool.ParseAddr("10.96.1.2")
	if err != nil {
		t.Fatal(err)
	}
	at, _ := present(t, s)
	since := time.UnixMilli(1_700_000_000_123)
	held := store.Owner{UID: "u1", Kind: "Service", Namespace: "default", Name: "wéb \"1\""}
	reserve := store.Owner{UID: "portolan-reserve-x", Kind: store.KindReserve, Name: "portolan-reserve-x"}
	_, err = s.Transact(t.Context(), at, func(store.News) (store.Batch, error) {
		return store.Batch{
			Pools: []store.PoolWrite{
				{Pool: store.Pool{Name: "ips", Use: allocatorv1.Use_USE_CLUSTER_IP, Range: "10.96.0.0/16", State: allocatorv1.PoolState_POOL_STATE_ACTIVE, Band: 256}},
				{Pool: store.Pool{Name: "ports", Use: allocatorv1.Use_USE_NODE_PORT, Range: "30000-30099", State: allocatorv1.PoolState_POOL_STATE_DRAINING, Band: 16}},
			},
			Writes: []store.Write{
				{Allocation: store.Allocation{Value: ip, Pool: "ips", Owner: held, Claims: []store.Claim{{Slot: "ip/0", Confirmed: true, Since: since}, {Slot: "x", Since: since}}}},
				{Allocation: store.Allocation{Value: pool.PortValue(30001), Pool: "ports", Owner: store.Owner{UID: "u2"}, Released: since}},
				{Allocation: store.Allocation{Value: pool.PortValue(30002), Pool: "ports", Owner: reserve, Claims: []store.Claim{{Slot: "grant/1", Confirmed: true, Since: since}}}},
			},
			Reserves: []store.ReserveWrite{{Reserve: store.Reserve{Holder: reserve.UID, Grant: 1, Renewed: since}}},
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func run(ctx context.Context, command string, args ...string) error {
	return dumpCommands()[command](ctx, args)
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestMoveToPostgres exports an embedded store, imports it into Postgres, and exports that.
func TestMoveToPostgres(t *testing.T) {
	dir := t.TempDir()
	embedded, database := "sqlite:"+filepath.Join(dir, "embedded"), kittest.Postgres(t)
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	s := open(t, embedded)
	fill(t, s)
	if err := run(t.Context(), "export", "-store", embedded, "-file", first); !errors.Is(err, sqldb.ErrInUse) {
		t.Errorf("export of a store in use: %v", err)
	}
	if err := run(t.Context(), "import", "-store", embedded, "-file", first); err == nil {
		t.Error("an import into a store in use")
	}
	closeStore(t, s)
	for command, where := range map[string]string{"export": embedded, "import": database} {
		if err := run(t.Context(), command, "-store", where, "-file", filepath.Join(dir, "missing", "file")); err == nil {
			t.Errorf("%s with a file in a folder that does not exist", command)
		}
	}
	if err := run(t.Context(), "export", "-store", embedded, "-file", first); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), "import", "-store-file", kittest.SecretFile(t, database), "-file", first); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), "export", "-store", database, "-file", second); err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, second), read(t, first); got != want || strings.Count(want, "\n") != 7 {
		t.Errorf("exported at first:\n%s\nand after the import:\n%s", want, got)
	}
	moved := open(t, database)
	defer closeStore(t, moved)
	if _, reserves := present(t, moved); reserves != 0 {
		t.Errorf("%d reserves were imported", reserves)
	}
}

// TestOnlyAnEmptyStoreIsFilled imports into stores that are not empty.
func TestOnlyAnEmptyStoreIsFilled(t *testing.T) {
	dir := t.TempDir()
	source, file := "sqlite:"+filepath.Join(dir, "source"), filepath.Join(dir, "file")
	s := open(t, source)
	fill(t, s)
	closeStore(t, s)
	if err := run(t.Context(), "export", "-store", source, "-file", file); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"sqlite": "sqlite:" + filepath.Join(dir, "target"), "postgres": kittest.Postgres(t)} {
		if err := run(t.Context(), "import", "-store", target, "-file", file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := run(t.Context(), "import", "-store", target, "-file", file); !errors.Is(err, errNotEmpty) {
			t.Errorf("%s: a second import: %v", name, err)
		}
		if err := run(t.Context(), "import", "-store", target, "-file", file, "-replace"); err != nil {
			t.Errorf("%s: a second import with -replace: %v", name, err)
		}
		again := filepath.Join(dir, "again")
		if err := run(t.Context(), "export", "-store", target, "-file", again); err != nil || read(t, again) != read(t, file) {
			t.Errorf("%s: after the import %s, %v", name, read(t, again), err)
		}
	}
}

// TestADamagedFileChangesNothing imports files that were cut off or changed.
func TestADamagedFileChangesNothing(t *testing.T) {
	dir := t.TempDir()
	source, target := "sqlite:"+filepath.Join(dir, "source"), "sqlite:"+filepath.Join(dir, "target")
	s := open(t, source)
	fill(t, s)
	closeStore(t, s)
	var out bytes.Buffer
	if err := runExport(t.Context(), []string{"-store", source}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	whole := out.String()
	lines := strings.SplitAfter(strings.TrimSuffix(whole, "\n"), "\n")
	damaged := map[string]string{
		"a changed value":    strings.Replace(whole, "10.96.1.2", "10.96.1.3", 1),
		"a missing line":     strings.Replace(whole, lines[3], "", 1),
		"a doubled line":     strings.Replace(whole, lines[3], lines[3]+lines[3], 1),
		"something after it": whole + lines[3],
		"another format":     strings.Replace(whole, `"format":1`, `"format":2`, 1),
		"text":               "hello\n",
	}
	for n := range lines {
		damaged["cut off after lines: "+lines[n]] = strings.Join(lines[:n], "")
		damaged["cut off in the middle of a line: "+lines[n]] = strings.Join(lines[:n], "") + lines[n][:len(lines[n])/2]
	}
	for name, text := range damaged {
		if err := runImport(t.Context(), []string{"-store", target}, strings.NewReader(text), io.Discard); err == nil {
			t.Errorf("%s: imported", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "target")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the store was touched: %v", err)
	}
	var report bytes.Buffer
	if err := runImport(t.Context(), []string{"-store", target}, strings.NewReader(whole), &report); err != nil || report.String() != "2 pools and 3 allocations imported\n" {
		t.Errorf("the whole file: %q, %v", report.String(), err)
	}
}

// TestErrorsHaveNoPassword checks that no error of a store that cannot be opened has the password of
// its URL.
func TestErrorsHaveNoPassword(t *testing.T) {
	for _, dsn := range []string{
		"postgres://portolan:hush@127.0.0.1:1/portolan",
		"postgres://portolan:hush@127.0.0.1:port/portolan",
		"postgres://portolan:hush%zz@127.0.0.1:1/portolan",
		"postgres://portolan:hush@127.0.0.1:1/portolan?sslmode=nonsense",
		"host=127.0.0.1 port=1 user=portolan password=hush",
		"host=127.0.0.1 port=x user=portolan password='hush",
		"mysql://portolan:hush@db/portolan",
	} {
		s, err := openStore(t.Context(), allocator.Config{Store: dsn}, slog.New(slog.DiscardHandler))
		if err == nil {
			closeStore(t, s)
			t.Fatalf("%s was opened", dsn)
		}
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("the error of %s has the password: %v", dsn, err)
		}
	}
}
