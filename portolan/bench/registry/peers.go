package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"

	"portolan.dev/portolan/bench/internal/rig"
	"portolan.dev/services/kit/yardstick"
)

// payload is the size in bytes of an object of the yardsticks, about the size of a service.
const payload = 600

// cluster is the Postgres server of this bench.
type cluster struct{ *rig.Postgres }

var (
	tps        = regexp.MustCompile(`tps = ([0-9.]+)`)
	connecting = regexp.MustCompile(`initial connection time = ([0-9.]+) ms`)
	processed  = regexp.MustCompile(`transactions actually processed: ([0-9]+)`)
)

// pgbench returns the inserts per second of some clients that commit every row, measured for the
// time d, and the CPU time of an insert. pgbench's own clock starts before its clients are
// connected, which takes seconds on a busy machine, and each connection is a process of the server.
// A first run with few inserts, which also warms up the server, measures the cost of the connections. The
// results do not include it.
func (p cluster) pgbench(ctx context.Context, clients int, d time.Duration) (rate float64, perInsert costs, err error) {
	const insert = `CREATE TABLE IF NOT EXISTS insert_only (name text PRIMARY KEY, data bytea NOT NULL)`
	if err := p.Query(ctx, "postgres", insert, nil); err != nil {
		return 0, nil, err
	}
	const few = 10 // inserts of each client
	first, err := p.runPgbench(ctx, clients, "-t", strconv.Itoa(few))
	if err != nil {
		return 0, nil, err
	}
	seconds := math.Ceil(d.Seconds() + first.connecting.Seconds())
	second, err := p.runPgbench(ctx, clients, "-T", strconv.Itoa(int(seconds)))
	if err != nil {
		return 0, nil, err
	}
	perInsert = costs{}
	for i, part := range p.parts() {
		perInsert[part.name] = []float64{float64((second.cpu[i] - first.cpu[i]).Microseconds()) / (second.inserts - first.inserts)}
	}
	return second.rate, perInsert, nil
}

// parts are the processes that take part in an insert. pgbench has exited when they are asked.
func (p cluster) parts() parts { return parts{{"postgres", p.CPU}, {"pgbench", yardstick.CPUOfExited}} }

// pgbenchRun is the result of a run of pgbench.
type pgbenchRun struct {
	rate       float64 // inserts per second of the connected clients
	inserts    float64
	connecting time.Duration
	cpu        []time.Duration // by part
}

// runPgbench runs pgbench for a number of transactions or a time.
func (p cluster) runPgbench(ctx context.Context, clients int, length ...string) (*pgbenchRun, error) {
	script := filepath.Join(p.Dir, "insert.sql")
	text := fmt.Sprintf("\\set id random(1, 9000000000000000000)\nINSERT INTO insert_only VALUES ('object-' || :id, '%s');\n", strings.Repeat("x", payload))
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		return nil, err
	}
	args := append([]string{"-h", p.Dir, "-U", "postgres", "-n", "-M", "prepared", "-f", script, "-j", "2", "-c", strconv.Itoa(clients)}, length...)
	before := p.parts().used()
	out, err := p.Command(ctx, "pgbench", append(args, "postgres")...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("pgbench: %w\n%s", err, out)
	}
	run := &pgbenchRun{cpu: p.parts().used()}
	for i := range before {
		run.cpu[i] -= before[i]
	}
	var ms float64
	for found, into := range map[*regexp.Regexp]*float64{tps: &run.rate, processed: &run.inserts, connecting: &ms} {
		value := found.FindSubmatch(out)
		if value == nil {
			return nil, fmt.Errorf("pgbench does not say %s:\n%s", found, out)
		}
		if *into, err = strconv.ParseFloat(string(value[1]), 64); err != nil {
			return nil, err
		}
	}
	run.connecting = time.Duration(ms * float64(time.Millisecond))
	return run, nil
}

// etcd is an etcd server of this bench.
type etcd struct {
	rig.Process
	conn *grpc.ClientConn
}

func (b *bench) startEtcd(ctx context.Context) (*etcd, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	peerAddr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	client, peer := "http://"+addr, "http://"+peerAddr
	cmd := exec.CommandContext(ctx, "etcd", "--data-dir", filepath.Join(b.rig.Dir, "etcd"), "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer, "--log-level", "error")
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: apt-get install etcd-server", err)
	}
	e := &etcd{Process: rig.Process{Cmd: cmd}}
	b.rig.Defer(e.Stop)
	e.conn, err = grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	if err != nil {
		return nil, err
	}
	b.rig.Defer(func() { _ = e.conn.Close() })
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

// putter returns a function that puts an object with a name that begins with the prefix.
func (e *etcd) putter(prefix string) func(context.Context, int, int64) error {
	return func(ctx context.Context, _ int, n int64) error { return e.put(ctx, fmt.Sprintf("%s-%d", prefix, n)) }
}

// parts are the processes that take part in a put.
func (e *etcd) parts() parts {
	return parts{{"etcd", e.CPU}, {"clients", yardstick.CPUOfSelf}}
}

// raw is a codec that sends and receives bytes.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (raw) Name() string { return "proto" }
