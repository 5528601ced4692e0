package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"portolan.dev/services/kit/yardstick"
)

// Postgres is a Postgres server with fsync.
type Postgres struct {
	// Version is its name and version, such as "PostgreSQL 15.18".
	Version string

	// Dir is the folder of its socket and its data.
	Dir string

	bin  string
	cred *syscall.Credential
	cmd  *exec.Cmd
}

func (r *Rig) startPostgres(ctx context.Context) (*Postgres, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well-formed
	if len(found) == 0 {
		return nil, errors.New("no Postgres here: apt-get install postgresql")
	}
	p := &Postgres{bin: found[len(found)-1], Dir: filepath.Join(r.Dir, "pg")}
	if err := os.Mkdir(p.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := p.becomeUser(); err != nil {
		return nil, err
	}
	data := filepath.Join(p.Dir, "data")
	if out, err := p.Command(ctx, "initdb", "-U", "postgres", "-A", "trust", "--locale=C", "-E", "UTF8", "-D", data).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	p.cmd = p.Command(ctx, "postgres", "-D", data, "-k", p.Dir, "-c", "listen_addresses=", "-c", "max_connections=400", "-c", "shared_buffers=256MB", "-c", "max_wal_size=4GB")
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	r.Defer(func() { stop(p.cmd, syscall.SIGINT) })
	return p, p.wait(ctx)
}

// becomeUser makes the server run as the user postgres if this process is root, because Postgres
// does not run as root.
func (p *Postgres) becomeUser() error {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return err
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(errUID, errGID); err != nil {
		return err
	}
	p.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(p.Dir, int(uid), int(gid))
}

// wait waits until the server answers, and reads its version.
func (p *Postgres) wait(ctx context.Context) error {
	for ctx.Err() == nil {
		if p.Query(ctx, "postgres", "SELECT version()", &p.Version) == nil {
			p.Version = strings.Join(strings.Fields(p.Version)[:2], " ")
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return ctx.Err()
}

// Command returns a command that runs a program of the server's package as the user of the server.
func (p *Postgres) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, name), args...) // #nosec G204 -- the programs of the installed Postgres
	cmd.Dir = p.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.cred}
	return cmd
}

// Query runs a statement in a database, and reads the value of its only row into the variable, unless
// into is nil.
func (p *Postgres) Query(ctx context.Context, database, sql string, into any) error {
	conn, err := pgx.Connect(ctx, p.dsn(database))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if into == nil {
		_, err := conn.Exec(ctx, sql)
		return err
	}
	return conn.QueryRow(ctx, sql).Scan(into)
}

func (p *Postgres) dsn(database string) string {
	return fmt.Sprintf("host=%s user=postgres dbname=%s sslmode=disable", p.Dir, database)
}

// Database makes an empty database and returns its DSN.
func (p *Postgres) Database(ctx context.Context, name string) (string, error) {
	return p.dsn(name), p.Query(ctx, "postgres", "CREATE DATABASE "+pgx.Identifier{name}.Sanitize(), nil)
}

// Tidy makes the server do its maintenance of a database now. It would otherwise do it during a
// measurement.
func (p *Postgres) Tidy(ctx context.Context, database string) error {
	return errors.Join(p.Query(ctx, database, "VACUUM ANALYZE", nil), p.Query(ctx, database, "CHECKPOINT", nil))
}

// CPU returns the CPU time of all processes of the server, including those that have ended.
func (p *Postgres) CPU() time.Duration {
	user, system := yardstick.CPUOfTree(p.cmd.Process.Pid)
	return user + system
}
