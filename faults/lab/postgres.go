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

// settings are the configuration of both servers. Writes do not survive a loss of power, which is
// not among the faults: the kernel keeps the writes of a killed process. Connections to silent
// peers are closed after seconds.
var commonSettings = []string{
	"port=5432", "max_connections=100", "full_page_writes=off", "shared_buffers=32MB",
	"wal_keep_size=256MB", "wal_sender_timeout=3s", "wal_receiver_timeout=3s", "wal_retrieve_retry_interval=200ms",
	"dynamic_shared_memory_type=mmap", // in the server's folder; a killed server would not remove other kinds
	"tcp_keepalives_idle=2", "tcp_keepalives_interval=1", "tcp_keepalives_count=3",
}

// postgres is a server of the pair.
type postgres struct {
	*Machine
	lab *Lab
	dir string
	bin string
	// replication are the settings that depend on which server is the primary.
	replication []string
	// slow reports whether flushes of the log are slow.
	slowFlush bool
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

// run starts the server.
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

// tool runs a program of Postgres in the server's namespace.
func (p *postgres) runTool(name string, args ...string) error {
	return p.Namespace.Do(func() error {
		if out, err := p.command(name, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, out)
		}
		return nil
	})
}

// initialise creates the first server's data. The tests and the standby connect as the superuser. A
// registry authenticates with its certificate, which has its role as the common name.
func (p *postgres) initDatabase() error {
	err := p.runTool("initdb", "-U", "postgres", "-A", "trust", "--locale=C", "-E", "UTF8", "--no-sync", "-D", p.dataDir())
	if err != nil {
		return err
	}
	access := "host all postgres 0.0.0.0/0 trust\nhost replication postgres 0.0.0.0/0 trust\nhostssl all all 0.0.0.0/0 cert\n"
	return errors.Join(p.writeFile("pg_hba.conf", access), p.setReplication())
}

// write replaces a file of the data atomically, because the server may start and read it at any
// time.
func (p *postgres) writeFile(name, content string) error {
	return replaceFile(filepath.Join(p.dataDir(), name), []byte(content), p.owner())
}

// replicate sets the settings that depend on the server's role: whether commits of a primary wait
// for the standby, and which primary a standby follows.
func (p *postgres) setReplication(lines ...string) error {
	p.replication = lines
	return p.configure()
}

// configure writes the settings that change.
func (p *postgres) configure() error {
	lines := slices.Concat(p.replication, flushSettings(p.slowFlush))
	return p.writeFile("postgresql.auto.conf", strings.Join(lines, "\n")+"\n")
}

// follow starts this server, which must not run, as a standby of the primary, with a copy of its
// data.
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

// reload makes the server read its settings again. A paused server does so when it continues. A
// starting server without a handler for SIGHUP would be killed by the signal. It needs none,
// because it installs its handlers before it reads its settings.
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

// query runs a query of one value on the server. It connects from the hub, so cuts do not affect
// it.
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

// dsn returns the data source name of a registry. It has both servers, and the registry uses the
// one that accepts writes. An interrupted write is committed within two seconds or never, so that
// tests need not wait longer.
func (l *Lab) dsn(registry *Machine) string {
	return fmt.Sprintf("host=%s,%s user=%s dbname=%s sslmode=verify-full sslrootcert=%s sslcert=%s sslkey=%s "+
		"target_session_attrs=read-write connect_timeout=2 statement_timeout=2000 idle_in_transaction_session_timeout=2000",
		l.postgres[0].Addresses[0], l.postgres[1].Addresses[0], registry.id.Role, database,
		registry.files.CA, registry.files.Cert, registry.files.Key)
}

// handshakePostgres opens a connection by TLS to the server.
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

// inSync is how long FailOver waits for the standby to have all writes.
const standbyTimeout = 3 * time.Second

// ErrNoStandby is returned by FailOver if the standby lacks writes. The fail-over would lose
// acknowledged writes, so no tool would do it without an operator.
var ErrNoStandby = errors.New("no standby is in sync")

// FailOver kills the primary and promotes the standby if the standby has all writes. Rejoin ends
// it.
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

// Rejoin makes the server that FailOver killed the standby of the new primary.
func (l *Lab) Rejoin() error { return l.postgres[1].follow(l.postgres[0]) }
