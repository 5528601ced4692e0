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
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Cluster is a Postgres server of its own, for tests that stop it.
type Cluster struct {
	bin, dir string
	cred     *syscall.Credential // of the user to run as; nil is our own
	proc     *process            // nil while stopped
	port     int                 // of TCP, and in the name of the socket
	tls      []string            // arguments of a server that also listens on TCP, by TLS
	log      strings.Builder     // of servers that were stopped
}

// defaultPort is in the name of the socket, which is in a directory of its own.
const defaultPort = 5432

// NewCluster starts a server that only this test uses. Skips like Postgres.
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

// Database makes an empty database. It goes with the cluster.
func (c *Cluster) Database(t testing.TB) (dsn string) {
	t.Helper()
	name := fmt.Sprintf("portolan_test_%d", databases.Add(1))
	if err := execute(c.DSN("postgres"), "CREATE DATABASE "+name); err != nil {
		t.Fatalf("postgres: %v", err)
	}
	return c.DSN(name)
}

// DSN is the connection string of a database. The server listens on a Unix
// socket only, so there is no port that somebody else might have.
func (c *Cluster) DSN(database string) string {
	return fmt.Sprintf("host=%s port=%d user=postgres dbname=%s sslmode=disable", c.dir, c.port, database)
}

// Password makes a role with a database of its own, both of one name, which the
// server from now on lets in by its password alone; but postgres, who needs none.
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
	if err := errors.Join(c.Stop(), c.Start()); err != nil { // a new start reads pg_hba.conf, for certain
		t.Fatalf("postgres: %v", err)
	}
	return fmt.Sprintf("host=%s port=%d user=%s password=%s dbname=%s sslmode=disable", c.dir, c.port, role, password, role)
}

// Environment is what psql and its like need to be found, and to reach the server
// as its superuser.
func (c *Cluster) Environment() []string {
	return []string{
		"PATH=" + c.bin + string(os.PathListSeparator) + os.Getenv("PATH"),
		"PGHOST=" + c.dir, "PGPORT=" + strconv.Itoa(c.port), "PGUSER=postgres", "PGDATABASE=postgres",
	}
}

// URL is DSN as a URL, for a role and its password.
func (c *Cluster) URL(role, password, database string) string {
	query := url.Values{"host": {c.dir}, "port": {strconv.Itoa(c.port)}, "sslmode": {"disable"}}
	return (&url.URL{Scheme: "postgres", User: url.UserPassword(role, password), Path: "/" + database, RawQuery: query.Encode()}).String()
}

// Stop stops the server at once, as a crash does. Stopping twice does nothing.
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

// Log returns what the server wrote to its log until it was stopped.
func (c *Cluster) Log() string { return c.log.String() }

// Start starts a stopped server on the same data and waits until it answers.
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
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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
	// Socket names are limited to about 100 bytes and t.TempDir to nothing.
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

// PostgresUser returns the user that a server has to run as, which refuses to be root; nil: our own.
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

// PostgresBinaries returns the directory of initdb and its like, of the newest version. Without one it skips
// the test like Postgres.
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

// process is a running child. It dies with this process: the kernel sends it
// SIGQUIT when the thread that started it ends, so that thread is kept for it.
type process struct {
	cmd    *exec.Cmd
	output bytes.Buffer // to be read when done
	done   chan struct{}
	err    error // how it ended, set before done is closed
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
		close(p.done)
	}()
	return p, <-started
}

// stop is an immediate shutdown in the terms of Postgres.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
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
