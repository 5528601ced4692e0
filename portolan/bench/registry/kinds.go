package main

import "portolan.dev/portolan/bench/internal/account"

// Kinds of work of Postgres, which has no CPU profile.
const (
	kindStatements         = "Postgres: statements"
	kindStatementsInKernel = "Postgres: log, files and sockets, in the kernel"
)

// kinds are the kinds of work by which the CPU time of a create and of a put is divided. Earlier ones
// take precedence: the work of the runtime and of the kernel before the work that causes it, and then
// the functions that others call before their callers.
var kinds = []account.Kind{
	{Name: "garbage collection", Functions: []string{
		"runtime.gcBgMarkWorker", "runtime.gcAssist", "runtime.gcStart", "runtime.gcMark", "runtime.bgsweep", "runtime.bgscavenge", "runtime.deductSweepCredit",
		"runtime.wbBufFlush", "runtime.(*sweepLocked)", "runtime.gcDrain", "runtime.bulkBarrier",
	}},
	{Name: "allocation", Functions: []string{"runtime.mallocgc", "runtime.newobject", "runtime.makeslice", "runtime.growslice", "runtime.newstack", "runtime.(*mcache)"}},
	{Name: "files of SQLite, etcd, NATS", Functions: []string{
		"github.com/ncruces/go-sqlite3/vfs", "github.com/nats-io/nats-server/v2/server.(*fileStore)", "github.com/nats-io/nats-server/v2/server.(*msgBlock)",
		"go.etcd.io/etcd/wal", "go.etcd.io/etcd/mvcc", "go.etcd.io/etcd/v3/wal", "go.etcd.io/etcd/v3/mvcc", "go.etcd.io/bbolt", "github.com/etcd-io/bbolt",
	}},
	{Name: "sockets, in the kernel", Functions: []string{"syscall.", "internal/runtime/syscall", "golang.org/x/sys/unix", "internal/poll.(*FD)"}},
	{Name: "scheduler, hand-over", Functions: []string{
		"runtime.mcall", "runtime.goready", "runtime.ready", "runtime.mstart", "runtime.sysmon", "runtime.schedule", "runtime.park_m", "runtime.gosched", "runtime.goexit0",
		"runtime.newproc", "runtime.selectgo", "runtime.chansend", "runtime.chanrecv", "runtime.closechan", "runtime.send", "runtime.sem", "runtime.futex",
		"internal/sync.(*Mutex)", "internal/sync.runtime_", "sync.(*Cond)", "sync.runtime_", "runtime.lock", "runtime.unlock", "runtime.gcstopm", "runtime.morestack", "runtime.asyncPreempt",
		"time.NewTimer", "time.AfterFunc", "time.(*Timer)", "context.With",
	}},
	{Name: "audit, metrics, traces, logs", Functions: []string{
		"portolan.dev/services/kit/audit", "portolan.dev/services/kit/obs", "portolan.dev/services/kit/tracing", "portolan.dev/services/daemon", "github.com/prometheus/",
		"go.opentelemetry.io/", "log/slog", "portolan.dev/services/kit/rpc.(*metrics)", "github.com/grpc-ecosystem/", "go.uber.org/zap",
	}},
	{Name: "registry: comparing the stream with the log", Functions: []string{"portolan.dev/services/changes.(*Verifier)"}},
	{Name: "registry: relay", Functions: []string{"portolan.dev/services/changes.(*Relay)", "portolan.dev/registry/changelog"}},
	{Name: "allocator: following the stream", Functions: []string{"portolan.dev/services/changes.(*Follower)"}},
	{Name: "allocator: comparing values with objects", Functions: []string{"portolan.dev/allocator/internal/verifier"}},
	{Name: "client of NATS", Functions: []string{"github.com/nats-io/nats%2ego", "github.com/nats-io/nats.go"}},
	{Name: "registry: view", Functions: []string{"portolan.dev/registry/internal/view", "portolan.dev/registry/internal/watch"}},
	{Name: "registry: values at hand", Functions: []string{"portolan.dev/registry/internal/allocator"}},
	{Name: "registry: commit", Functions: []string{"portolan.dev/registry/internal/postgres", "portolan.dev/registry/store", "github.com/jackc/"}},
	{Name: "registry: admission", Functions: []string{"portolan.dev/registry/internal/admission", "portolan.dev/registry/internal/rules", "portolan.dev/services/kinds", "portolan.dev/services/spec", "portolan.dev/registry/internal/quota"}},
	{Name: "allocator: decision", Functions: []string{"portolan.dev/allocator/internal/allocation"}},
	{Name: "allocator: database", Functions: []string{"portolan.dev/allocator/internal/sqlite", "github.com/ncruces/", "database/sql", "portolan.dev/allocator/internal/row"}},
	{Name: "allocator: calls", Functions: []string{"portolan.dev/allocator/internal/engine", "portolan.dev/allocator/internal/api"}},
	{Name: "NATS: stream and subscribers", Functions: []string{"github.com/nats-io/nats-server/"}},
	{Name: "etcd: raft", Functions: []string{"go.etcd.io/etcd/raft", "go.etcd.io/etcd/etcdserver.", "go.etcd.io/etcd/v3/raft", "go.etcd.io/etcd/v3/etcdserver.", "go.etcd.io/etcd/server", "go.etcd.io/etcd/lease", "go.etcd.io/etcd/pkg"}},
	{Name: "encoding and decoding", Functions: []string{
		"portolan.dev/services/kit/rpc.vtCodec", "portolan.dev/services/kit/rpc.marshalInto", "google.golang.org/protobuf/", "portolan.dev/api/", "portolan.dev/registry/internal/response",
		"portolan.dev/services/kit/rpc.checkUTF8", "google.golang.org/grpc.encode", "google.golang.org/grpc.prepareMsg", "github.com/gogo/protobuf", "github.com/golang/protobuf", "go.etcd.io/etcd/etcdserver/etcdserverpb", "main.raw",
	}},
	{Name: "requests: authorize, limits", Functions: []string{"portolan.dev/services/kit/rpc", "portolan.dev/services/access", "portolan.dev/registry/internal/api"}},
	{Name: "gRPC", Functions: []string{"google.golang.org/grpc", "golang.org/x/net/http2", "golang.org/x/net/trace"}},
	{Name: "the benchmark's own", Functions: []string{"main."}},
}

// kindNames returns the names of the kinds in the order of the table's rows.
func kindNames() []string {
	names := make([]string, 0, len(kinds)+2)
	for _, kind := range kinds {
		names = append(names, kind.Name)
	}
	return append(names, kindStatements, kindStatementsInKernel)
}
