package lab

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// database is the name of the registries' database.
const database = "portolan"

// commonSettings are the settings of both servers. They do not protect writes against a loss of
// power, because no fault of the lab simulates one, and the kernel keeps the writes of a killed
// process. The timeouts close connections to unreachable peers within a few seconds.
var commonSettings = []string{
	"port=5432", "max_connections=100", "full_page_writes=off", "shared_buffers=32MB",
	"wal_keep_size=256MB", "wal_sender_timeout=3s", "wal_receiver_timeout=3s", "wal_retrieve_retry_interval=200ms",
	// The memory is in files of the server's folder. A killed server would leave other kinds
	// behind.
	"dynamic_shared_memory_type=mmap",
	"tcp_keepalives_idle=2", "tcp_keepalives_interval=1", "tcp_keepalives_count=3",
}

// postgres is one of the two Postgres servers.
type postgres struct {
	*Machine
	lab *Lab
	dir string
	bin string
	// replication are the settings that depend on which server is the primary.
	replication []string
	slowFlush   bool
}

func (l *Lab) addPostgres(name string) *postgres {
	l.Helper()
	// Socket paths have at most 107 bytes, and the server's user needs access to the folder.
	dir, err := os.MkdirTemp(l.leftovers.scratch, "pg")
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			l.Error(err)
		}
	})
	if cred := l.user; cred != nil {
		if err := os.Chown(dir, int(cred.Uid), int(cred.Gid)); err != nil {
			l.Fatal(err)
		}
	}
	p := &postgres{lab: l, dir: dir, bin: kittest.PostgresBinaries(l)}
	p.Machine = l.addMachine(name, dir, p.run, func() error { return p.query("SELECT 1", new(int)) })
	return p
}

func (p *postgres) dataDir() string { return filepath.Join(p.dir, "data") }

func (p *postgres) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Dir = p.dir
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.lab.user}
	return cmd
}

// run starts the server's process.
func (p *postgres) run() *labtest.Process {
	args := []string{"-D", p.dataDir(), "-k", p.dir}
	own := []string{
		"listen_addresses=" + p.Addresses[0].String(),
		"ssl=on", "ssl_cert_file=" + p.files.Cert, "ssl_key_file=" + p.files.Key, "ssl_ca_file=" + p.files.CA,
	}
	for _, s := range slices.Concat(commonSettings, own) {
		args = append(args, "-c", s)
	}
	return labtest.Run(p.lab, p.Name, p.command("postgres", args...), p.Namespace)
}

// runTool runs a command-line program of Postgres in the server's namespace.
func (p *postgres) runTool(name string, args ...string) error {
	return p.Namespace.Do(func() error {
		if out, err := p.command(name, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, out)
		}
		return nil
	})
}

// initDatabase creates the data of the first server. The tests and the standby connect as the user
// postgres without a password. A registry authenticates with its certificate. The certificate's
// common name is the registry's role.
func (p *postgres) initDatabase() error {
	err := p.runTool("initdb", "-U", "postgres", "-A", "trust", "--locale=C", "-E", "UTF8", "--no-sync", "-D", p.dataDir())
	if err != nil {
		return err
	}
	access := "host all postgres 0.0.0.0/0 trust\nhost replication postgres 0.0.0.0/0 trust\nhostssl all all 0.0.0.0/0 cert\n"
	return errors.Join(p.writeFile("pg_hba.conf", access), p.setReplication())
}

// writeFile atomically replaces a file in the data folder, because the server may read the file at
// any time.
func (p *postgres) writeFile(name, content string) error {
	return replaceFile(filepath.Join(p.dataDir(), name), []byte(content), p.owner())
}

// setReplication replaces the replication settings: whether commits of a primary wait for the
// standby, and which primary a standby follows. The server uses them after a reload.
func (p *postgres) setReplication(lines ...string) error {
	p.replication = lines
	return p.configure()
}

// configure writes the settings that can change while the server runs.
func (p *postgres) configure() error {
	lines := slices.Concat(p.replication, flushSettings(p.slowFlush))
	return p.writeFile("postgresql.auto.conf", strings.Join(lines, "\n")+"\n")
}

// follow copies the primary's data to this server, and starts this server as the primary's standby.
// This server must not be running.
func (p *postgres) follow(primary *postgres) error {
	if err := os.RemoveAll(p.dataDir()); err != nil {
		return err
	}
	host := primary.Addresses[0].String()
	err := p.runTool("pg_basebackup", "-h", host, "-U", "postgres", "-D", p.dataDir(), "-X", "stream", "-c", "fast", "--no-sync")
	if err != nil {
		return err
	}
	conninfo := fmt.Sprintf("primary_conninfo = 'host=%s user=postgres application_name=standby connect_timeout=2'", host)
	if err := errors.Join(p.setReplication(conninfo), p.writeFile("standby.signal", "")); err != nil {
		return err
	}
	p.Start()
	if err := primary.setReplication("synchronous_standby_names = 'standby'"); err != nil {
		return err
	}
	return primary.reload()
}

// reload makes the server read its settings again. A paused server does so when it continues.
// It sends no signal to a starting server that has no handler for SIGHUP yet, because the
// signal would kill it. Such a server reads the new settings anyway, because it installs the
// handler before it reads its settings.
func (p *postgres) reload() error {
	if pid := p.PID(); pid == 0 || !handlesSignal(pid, syscall.SIGHUP) {
		return nil
	}
	return p.signalMain(syscall.SIGHUP)
}

// promote makes a standby the primary. Its commits do not wait for a standby until one follows it.
func (p *postgres) promote() error {
	if err := p.setReplication(); err != nil {
		return err
	}
	return errors.Join(p.reload(), p.query("SELECT pg_promote(true, 30)::int", new(int)))
}

// query runs a query that returns one value, and stores the value in to. It connects from the hub,
// so cuts do not affect it.
func (p *postgres) query(sql string, to any) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	dsn := fmt.Sprintf("host=%s user=postgres dbname=postgres sslmode=disable connect_timeout=2", p.Addresses[0])
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return conn.QueryRow(ctx, sql).Scan(to)
}

// dsn returns the data source name for a registry. It has the addresses of both servers, and the
// registry uses the server that accepts writes. The timeouts ensure that an interrupted write is
// committed within two seconds or not at all.
func (l *Lab) dsn(registry *Machine) string {
	return fmt.Sprintf("host=%s,%s user=%s dbname=%s sslmode=verify-full sslrootcert=%s sslcert=%s sslkey=%s "+
		"target_session_attrs=read-write connect_timeout=2 statement_timeout=2000 idle_in_transaction_session_timeout=2000",
		l.postgres[0].Addresses[0], l.postgres[1].Addresses[0], registry.id.Role, database,
		registry.files.CA, registry.files.Cert, registry.files.Key)
}

// handshakePostgres opens a TLS connection to a Postgres server, and closes it.
func (m *Machine) handshakePostgres(config *tls.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	settings, err := pgx.ParseConfig(fmt.Sprintf("host=%s user=postgres dbname=postgres sslmode=require", m.Addresses[0]))
	if err != nil {
		return err
	}
	settings.TLSConfig = config
	conn, err := pgx.ConnectConfig(ctx, settings)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func (l *Lab) startPostgres() error {
	first, second := l.postgres[0], l.postgres[1]
	if err := first.initDatabase(); err != nil {
		return err
	}
	first.Start()
	if err := eventually(first.Ready); err != nil {
		return err
	}
	host := first.Addresses[0].String()
	err := errors.Join(
		first.runTool("createuser", "-h", host, "-U", "postgres", string(identity.Registry)),
		first.runTool("createdb", "-h", host, "-U", "postgres", "-O", string(identity.Registry), database))
	if err != nil {
		return err
	}
	return second.follow(first)
}

// standbyTimeout is the time that FailOver waits until the standby has all writes.
const standbyTimeout = 3 * time.Second

// ErrNoStandby is returned by FailOver if the standby lacks writes. A fail-over would then lose
// acknowledged writes, so a fail-over tool would leave the decision to an operator.
var ErrNoStandby = errors.New("no standby is in sync")

// FailOver kills the primary and promotes the standby. It returns ErrNoStandby, and changes
// nothing, if the standby lacks writes. Rejoin makes the killed server the new standby.
func (l *Lab) FailOver() error {
	primary, standby := l.postgres[0], l.postgres[1]
	deadline := time.Now().Add(standbyTimeout)
	for {
		var behind int64
		err := primary.query("SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), flush_lsn)::bigint FROM pg_stat_replication WHERE sync_state = 'sync'", &behind)
		if err == nil && behind == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %d bytes behind, %w", ErrNoStandby, behind, err)
		}
		<-time.After(10 * time.Millisecond)
	}
	if err := primary.Kill(); err != nil {
		return err
	}
	if err := standby.promote(); err != nil {
		return err
	}
	l.postgres[0], l.postgres[1] = standby, primary
	return nil
}

// Rejoin starts the server that FailOver killed as the standby of the new primary.
func (l *Lab) Rejoin() error { return l.postgres[1].follow(l.postgres[0]) }
