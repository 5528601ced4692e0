package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
)

// payload is the size in bytes of an object of the yardsticks, about the size of a service.
const payload = 600

// cluster is a Postgres server of this bench, with fsync.
type cluster struct {
	bin, dir, version string
	cred              *syscall.Credential
	cmd               *exec.Cmd
}

func (b *bench) startPostgres(ctx context.Context) (*cluster, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well-formed
	if len(found) == 0 {
		return nil, errors.New("no Postgres here: apt-get install postgresql")
	}
	p := &cluster{bin: found[len(found)-1], dir: filepath.Join(b.dir, "pg")}
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, err
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		p.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(p.dir, uid, gid); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(p.dir, "data")
	if out, err := p.command(ctx, "initdb", "-U", "postgres", "-A", "trust", "--locale=C", "-E", "UTF8", "-D", data).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	p.cmd = p.command(ctx, "postgres", "-D", data, "-k", p.dir, "-c", "listen_addresses=", "-c", "max_connections=400", "-c", "shared_buffers=256MB", "-c", "max_wal_size=4GB")
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	b.deferCleanup(func() { stop(p.cmd, syscall.SIGINT) })
	for ctx.Err() == nil {
		if p.query(ctx, "postgres", "SELECT version()", &p.version) == nil {
			p.version = strings.Join(strings.Fields(p.version)[:2], " ")
			return p, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, ctx.Err()
}

func (p *cluster) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, name), args...)
	cmd.Dir = p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.cred}
	return cmd
}

func (p *cluster) dsn(database string) string {
	return fmt.Sprintf("host=%s user=postgres dbname=%s sslmode=disable", p.dir, database)
}

func (p *cluster) query(ctx context.Context, database, sql string, into any) error {
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

// database makes an empty database and returns its DSN.
func (p *cluster) database(ctx context.Context, name string) (string, error) {
	return p.dsn(name), p.query(ctx, "postgres", "CREATE DATABASE "+name, nil)
}

// cpu returns the CPU time of all current processes of the server.
func (p *cluster) cpu() time.Duration {
	total := cpuOf(p.cmd.Process.Pid)
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.cmd.Process.Pid, p.cmd.Process.Pid))
	for _, field := range strings.Fields(string(children)) {
		pid, _ := strconv.Atoi(field)
		total += cpuOf(pid)
	}
	return total
}

var (
	tps        = regexp.MustCompile(`tps = ([0-9.]+)`)
	connecting = regexp.MustCompile(`initial connection time = ([0-9.]+) ms`)
)

// pgbench returns the inserts per second of some clients that commit every row, measured for the
// time d. pgbench's own clock starts before its clients are connected, which takes seconds on a
// busy machine. A first run, which also warms up the server, measures that time. The result is the
// rate of the connected clients.
func (p *cluster) pgbench(ctx context.Context, clients int, d time.Duration) (float64, error) {
	script := filepath.Join(p.dir, "insert.sql")
	const insert = `CREATE TABLE IF NOT EXISTS insert_only (name text PRIMARY KEY, data bytea NOT NULL)`
	if err := p.query(ctx, "postgres", insert, nil); err != nil {
		return 0, err
	}
	text := fmt.Sprintf("\\set id random(1, 9000000000000000000)\nINSERT INTO insert_only VALUES ('object-' || :id, '%s');\n", strings.Repeat("x", payload))
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		return 0, err
	}
	run := func(found *regexp.Regexp, length ...string) (float64, error) {
		args := append([]string{"-h", p.dir, "-U", "postgres", "-n", "-M", "prepared", "-f", script, "-j", "2", "-c", strconv.Itoa(clients)}, length...)
		out, err := p.command(ctx, "pgbench", append(args, "postgres")...).CombinedOutput()
		if err != nil {
			return 0, fmt.Errorf("pgbench: %w\n%s", err, out)
		}
		value := found.FindSubmatch(out)
		if value == nil {
			return 0, fmt.Errorf("pgbench does not say %s:\n%s", found, out)
		}
		return strconv.ParseFloat(string(value[1]), 64)
	}
	ms, err := run(connecting, "-t", "10")
	if err != nil {
		return 0, err
	}
	seconds := math.Ceil(d.Seconds() + ms/1000)
	return run(tps, "-T", strconv.Itoa(int(seconds)))
}

// etcd is an etcd server of this bench.
type etcd struct {
	cmd  *exec.Cmd
	conn *grpc.ClientConn
}

func (b *bench) startEtcd(ctx context.Context) (*etcd, error) {
	addrs, err := freeAddrs(2)
	if err != nil {
		return nil, err
	}
	client, peer := "http://"+addrs[0], "http://"+addrs[1]
	cmd := exec.CommandContext(ctx, "etcd", "--data-dir", filepath.Join(b.dir, "etcd"), "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer, "--log-level", "error")
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: apt-get install etcd-server", err)
	}
	e := &etcd{cmd: cmd}
	b.deferCleanup(func() { stop(cmd, syscall.SIGTERM) })
	e.conn, err = grpc.NewClient("passthrough:///"+addrs[0], grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	if err != nil {
		return nil, err
	}
	b.deferCleanup(func() { _ = e.conn.Close() })
	waiting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return e, e.put(waiting, "first", grpc.WaitForReady(true))
}

// put stores an object. The message is encoded by hand, because one call does not justify etcd's
// client library.
func (e *etcd) put(ctx context.Context, key string, options ...grpc.CallOption) error {
	request := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), key)
	request = protowire.AppendString(protowire.AppendTag(request, 2, protowire.BytesType), strings.Repeat("x", payload))
	var answer []byte
	return e.conn.Invoke(ctx, "/etcdserverpb.KV/Put", &request, &answer, options...)
}

// raw is a codec that sends and receives bytes.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (raw) Name() string { return "proto" }

// freeAddrs returns addresses that were free a moment before.
func freeAddrs(n int) ([]string, error) {
	var addrs []string
	for range n {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer lis.Close()
		addrs = append(addrs, lis.Addr().String())
	}
	return addrs, nil
}
