package rig

import (
	"context"
	"os"
	"strings"
)

// Rig holds the servers and daemons of one run.
type Rig struct {
	// Dir is the folder of all data.
	Dir string
	// Postgres is the server of the registry's databases.
	Postgres *Postgres
	// NATS is the server of the change stream.
	NATS *NATS
	// Bin is the folder of the programs that StartDaemon starts.
	Bin string

	fail    context.CancelCauseFunc
	cleanup []func()
	ratios  []string
}

// start starts Postgres and NATS. The returned context ends, with the reason as its cause, when a
// daemon ends that was not stopped. bin is the folder of the built daemons. The program must call
// BecomeNATS first in its main function.
func start(ctx context.Context, bin string) (*Rig, context.Context, error) {
	r := &Rig{Bin: bin}
	ctx, r.fail = context.WithCancelCause(ctx)
	r.Defer(func() { r.fail(nil) })
	if err := r.startServers(ctx); err != nil {
		r.close()
		return nil, ctx, err
	}
	return r, ctx, nil
}

func (r *Rig) startServers(ctx context.Context) (err error) {
	if r.Dir, err = os.MkdirTemp("", "portolan-bench-"); err != nil {
		return err
	}
	r.Defer(func() { _ = os.RemoveAll(r.Dir) })
	if err := os.Chmod(r.Dir, 0o755); err != nil { // Postgres runs as another user
		return err
	}
	if r.Postgres, err = r.startPostgres(ctx); err != nil {
		return err
	}
	r.NATS, err = r.startNATS(ctx)
	return err
}

// Defer makes fn run at the end. The last function runs first.
func (r *Rig) Defer(fn func()) { r.cleanup = append(r.cleanup, fn) }

// close ends all processes and removes their files.
func (r *Rig) close() {
	for i := len(r.cleanup) - 1; i >= 0; i-- {
		r.cleanup[i]()
	}
	r.cleanup = nil
}

// load returns the load averages of the machine.
func load() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(content))[:3], " ")
}
