package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"portolan.dev/services/kit/yardstick"
)

// NATS is a NATS server.
type NATS struct {
	// URL is its address for clients.
	URL string

	cmd *exec.Cmd
}

// CPU returns the CPU time that the server has used.
func (n *NATS) CPU() time.Duration { return yardstick.CPU(n.cmd.Process.Pid) }

// natsFolder is the environment variable with which a program starts itself as the NATS server. Its value
// is the folder of the server's data.
const natsFolder = "PORTOLAN_BENCH_NATS"

// startNATS starts the running program as the NATS server of the change stream. In the program's own
// process its CPU time and garbage would count as the clients'.
func (r *Rig) startNATS(ctx context.Context) (*NATS, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self) // #nosec G204 -- the program itself
	cmd.Env = append(os.Environ(), natsFolder+"="+filepath.Join(r.Dir, "nats"))
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
	if _, err := fmt.Fscan(stdout, &n.URL); err != nil {
		return nil, fmt.Errorf("nats does not start: %w", err)
	}
	return n, nil
}

// BecomeNATS does nothing in a benchmark's own process. In the process that startNATS starts it serves
// NATS until a signal arrives, and ends the process.
func BecomeNATS() {
	dir := os.Getenv(natsFolder)
	if dir == "" {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serveNATS(ctx, dir)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nats:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveNATS is a NATS server with its data in a folder. It prints its URL and serves until ctx is
// done.
func serveNATS(ctx context.Context, dir string) error {
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return err
	}
	srv.Start()
	defer func() { srv.Shutdown(); srv.WaitForShutdown() }()
	if !srv.ReadyForConnections(time.Minute) {
		return errors.New("nats does not start")
	}
	fmt.Println(srv.ClientURL())
	<-ctx.Done()
	return nil
}
