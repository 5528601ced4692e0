package main

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

// startNATS starts this program as the NATS server of the change stream. In the bench's own process
// its CPU time and garbage would count as the clients'.
func (b *bench) startNATS(ctx context.Context) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, self, "-serve-nats", filepath.Join(b.dir, "nats"))
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	b.deferCleanup(func() { stop(cmd, syscall.SIGTERM) })
	var url string
	if _, err := fmt.Fscan(stdout, &url); err != nil {
		return "", fmt.Errorf("nats does not start: %w", err)
	}
	return url, nil
}

// serveNATS serves until ctx is done, and prints its address.
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
