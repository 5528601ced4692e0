package kittest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Cluster is a Postgres server for a single test, which may stop it.
type Cluster struct {
	bin, dir string
	cred     *syscall.Credential // of the user to run as; nil means our own
	proc     *process            // nil while stopped
	port     int                 // of TCP, and part of the socket's name
	tls      []string            // arguments of a server that also listens on TCP with TLS
	log      strings.Builder     // output of stopped servers
}

// defaultPort is part of the socket's name. Each server has its socket in its own directory.
const defaultPort = 5432

// NewCluster starts a server for this test only. Like Postgres, it skips the test if there is no
// installation.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	c, err := startCluster(PostgresBinaries(t))
	if err != nil {
		t.Fatalf("postgres: %v", err)
	}
	t.Cleanup(func() {
		if err := c.remove(); err != nil {
			t.Errorf("postgres: %v", err)
		}
	})
	return c
}

// Database creates an empty database and returns its connection string. The database is removed
// with the cluster.
func (c *Cluster) Database(t testing.TB) (dsn string) {
	t.Helper()
	name := fmt.Sprintf("portolan_test_%d", databases.Add(1))
	if err := execute(c.DSN("postgres"), "CREATE DATABASE "+name); err != nil {
		t.Fatalf("postgres: %v", err)
	}
	return c.DSN(name)
}

// DSN returns the connection string of a database. The server listens only on a Unix socket, so its
// port cannot be in use.
func (c *Cluster) DSN(database string) string {
	return fmt.Sprintf("host=%s port=%d user=postgres dbname=%s sslmode=disable", c.dir, c.port, database)
}

// Password creates a role, and a database with the same name and owner. From then on the server
// asks all roles except postgres for a password.
func (c *Cluster) Password(t testing.TB, role, password string) (dsn string) {
	t.Helper()
	c.write(t, filepath.Join("data", "pg_hba.conf"), []byte("local all postgres trust\nlocal all all scram-sha-256\n"))
	for _, sql := range []string{
		fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", role, password),
		fmt.Sprintf("CREATE DATABASE %s OWNER %s", role, role),
	} {
		if err := execute(c.DSN("postgres"), sql); err != nil {
			t.Fatalf("postgres: %v", err)
		}
	}
	// Only a restart is certain to read pg_hba.conf.
	if err := errors.Join(c.Stop(), c.Start()); err != nil {
		t.Fatalf("postgres: %v", err)
	}
	return fmt.Sprintf("host=%s port=%d user=%s password=%s dbname=%s sslmode=disable", c.dir, c.port, role, password, role)
}

// Environment returns the environment in which psql and the other client programs are found, and
// connect to the server as its superuser.
func (c *Cluster) Environment() []string {
	return []string{
		"PATH=" + c.bin + string(os.PathListSeparator) + os.Getenv("PATH"),
		"PGHOST=" + c.dir, "PGPORT=" + strconv.Itoa(c.port), "PGUSER=postgres", "PGDATABASE=postgres",
	}
}

// URL returns the connection string of a database as a URL, with a role and its password.
func (c *Cluster) URL(role, password, database string) string {
	query := url.Values{"host": {c.dir}, "port": {strconv.Itoa(c.port)}, "sslmode": {"disable"}}
	return (&url.URL{Scheme: "postgres", User: url.UserPassword(role, password), Path: "/" + database, RawQuery: query.Encode()}).String()
}

// Stop stops the server at once, as a crash would. It does nothing if the server is stopped.
func (c *Cluster) Stop() error {
	if c.proc == nil {
		return nil
	}
	p := c.proc
	c.proc = nil
	if err := p.stop(); err != nil {
		return err
	}
	_, err := p.output.WriteTo(&c.log)
	return err
}

// Log returns the output of the server up to its last stop.
func (c *Cluster) Log() string { return c.log.String() }

// Start starts a stopped server with the same data and waits until it accepts connections.
func (c *Cluster) Start() error {
	if c.proc != nil {
		return nil
	}
	args := []string{"-D", filepath.Join(c.dir, "data"), "-k", c.dir, "-p", strconv.Itoa(c.port), "-c", "listen_addresses=", "-c", "max_connections=300",
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "shared_buffers=32MB"}
	p, err := startProcess(c.command("postgres", append(args, c.tls...)...))
	if err != nil {
		return err
	}
	c.proc = p
	if err := c.waitReady(); err != nil {
		return errors.Join(err, c.Stop())
	}
	return nil
}

func (c *Cluster) waitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, c.DSN("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-c.proc.done:
			return fmt.Errorf("server ended: %w\n%s", c.proc.err, c.proc.output.String())
		case <-ctx.Done():
			return fmt.Errorf("server does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// remove stops the server and deletes its data.
func (c *Cluster) remove() error {
	return errors.Join(c.Stop(), os.RemoveAll(c.dir))
}

func startCluster(bin string) (*Cluster, error) {
	cred, err := PostgresUser()
	if err != nil {
		return nil, err
	}
	// The path of a socket is limited to about 100 bytes, and t.TempDir can be longer.
	dir, err := os.MkdirTemp("/tmp", "pg")
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, dir: dir, cred: cred, port: defaultPort}
	if err := c.initialise(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := c.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return c, nil
}

func (c *Cluster) initialise() error {
	if c.cred != nil {
		if err := os.Chown(c.dir, int(c.cred.Uid), int(c.cred.Gid)); err != nil {
			return err
		}
	}
	cmd := c.command("initdb", "-U", "postgres", "-A", "trust", "--locale=C", "-E", "UTF8", "--no-sync",
		"-D", filepath.Join(c.dir, "data"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.cred, Pdeathsig: syscall.SIGQUIT}
	return cmd
}

// PostgresUser returns the user that the server must run as, because Postgres refuses to run as
// root. It returns nil if the test does not run as root.
func PostgresUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("running as root, and postgres refuses to: %w", err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

// PostgresBinaries returns the directory of initdb and the other programs, of the newest version
// installed. Without one it skips the test, as Postgres does.
func PostgresBinaries(t testing.TB) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is well-formed
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1])
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	msg := "no Postgres here: install it (Debian: apt-get install postgresql), or set " +
		envPostgres + " to the connection string of a server where databases may be created"
	if os.Getenv(envRequireReal) == "1" {
		t.Fatal(msg)
	}
	t.Skip(msg)
	return ""
}

// process is a running child process. The kernel sends it SIGQUIT when the thread that started it
// ends, so that it ends with the test binary. The goroutine that waits for it keeps that thread.
type process struct {
	cmd    *exec.Cmd
	output bytes.Buffer // to be read after done is closed
	done   chan struct{}
	err    error // set before done is closed
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	return p, startOnThread(cmd, func(err error) {
		p.err = err
		close(p.done)
	})
}

// stop requests an immediate shutdown, as Postgres calls it.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(maxWait):
		return errors.Join(errors.New("server does not stop"), p.cmd.Process.Kill())
	}
}

func mustURL(dsn string) *url.URL {
	u, err := url.Parse(dsn)
	if err != nil {
		panic("kittest: " + envPostgres + ": " + err.Error())
	}
	return u
}
