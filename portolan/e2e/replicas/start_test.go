package replicas

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"portolan.dev/services/kit/kittest"
)

// TestRefusesToStart: a registry that cannot use its store ends at once and says why.
func TestRefusesToStart(t *testing.T) {
	dsn := kittest.Postgres(t)
	newer := kittest.Postgres(t)
	runs(t, "registry", "export", "-store", newer, "-file", t.TempDir()+"/backup") // makes the tables
	conn, err := pgx.Connect(within(t), newer)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(within(t))
	const future = `INSERT INTO schema_migrations (component, version, name, checksum, applied_at) VALUES ('registry', 999, 'later', '', now())`
	if _, err := conn.Exec(within(t), future); err != nil {
		t.Fatal(err)
	}
	for store, want := range map[string]string{
		dsn + " host=/nowhere":        "store unavailable",
		newer:                         "database schema does not fit this program",
		"sqlite:/proc/portolan-store": "/proc/portolan-store",
	} {
		c := command(t, "registry", "-addr", "127.0.0.1:0", "-http-addr", "127.0.0.1:0", "-nats-url", "nats://127.0.0.1:1", "-store", store)
		out, err := c.CombinedOutput()
		exit := (*exec.ExitError)(nil)
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), want) || strings.Contains(string(out), "panic") {
			t.Errorf("%s: %v, want %q:\n%s", store, err, want, out)
		}
	}
}
