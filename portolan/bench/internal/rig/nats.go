package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// NATS is a NATS server.
type NATS struct {
	// URL is its address for clients, Debug that of its profiles.
	URL, Debug string

	cmd *exec.Cmd
}

// CPU returns the CPU time that the server has used.
func (n *NATS) CPU() time.Duration { return cpuOf(n.cmd.Process.Pid) }

// startNATS starts the running program as the NATS server of the change stream. In the program's own
// process its CPU time and garbage would count as the clients'.
func (r *Rig) startNATS(ctx context.Context, args []string) (*NATS, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args = append(args[:len(args):len(args)], filepath.Join(r.Dir, "nats"))
	cmd := exec.CommandContext(ctx, self, args...) // #nosec G204 -- the program itself
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r.Defer(func() { stop(cmd, syscall.SIGTERM) })
	n := &NATS{cmd: cmd}
	if _, err := fmt.Fscan(stdout, &n.URL, &n.Debug); err != nil {
		return nil, fmt.Errorf("nats does not start: %w", err)
	}
	return n, nil
}

// ServeNATS is a NATS server with its data in a folder. It prints its URL and the address of its
// profiles, and serves until ctx is done.
func ServeNATS(ctx context.Context, dir string) error {
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true, ProfPort: server.RANDOM_PORT,
	})
	if err != nil {
		return err
	}
	srv.Start()
	defer func() { srv.Shutdown(); srv.WaitForShutdown() }()
	if !srv.ReadyForConnections(time.Minute) {
		return errors.New("nats does not start")
	}
	fmt.Println(srv.ClientURL(), srv.ProfilerAddr())
	<-ctx.Done()
	return nil
}
