package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	_ "portolan.dev/nodeagent/program" // startDaemon builds it
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/yardstick"
)

// serve serves a log by TCP, as a registry does, and returns its address.
func serve(t *testing.T, log *changestest.Log) string {
	t.Helper()
	logger := kittest.Logger(t)
	srv := rpc.NewServer(rpc.ServerOptions{Log: logger, Metrics: obs.NewMetrics(), Health: health.New(logger)})
	log.Register(srv)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	kittest.Run(t, "registry", func(ctx context.Context) error { return srv.Serve(ctx, lis) })
	return lis.Addr().String()
}

// daemonProcess is the daemon as a process, so that the measurement includes the installed program
// and nothing of the test.
type daemonProcess struct {
	cmd    *exec.Cmd
	client nodeagentv1.NodeAgentServiceClient
}

// The daemon's addresses. Nothing else runs in this namespace.
const (
	apiAddr  = "127.0.0.1:7404"
	httpAddr = "127.0.0.1:7504"
)

// startDaemon builds the daemon and runs it until the test ends.
func startDaemon(t *testing.T, args ...string) *daemonProcess {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "nodeagent")
	if err := kittest.Build(dir, "portolan.dev/nodeagent/cmd/nodeagent"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{
		"-addr=" + apiAddr, "-http-addr=" + httpAddr, "-log-level=error", "-data-dir=" + filepath.Join(dir, "data"),
	}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	kittest.StartProcess(t, cmd)
	conn, err := grpc.NewClient(apiAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &daemonProcess{cmd, nodeagentv1.NewNodeAgentServiceClient(conn)}
}

// applied waits until the daemon has programmed a revision. The test fails if any step has failed.
func (d *daemonProcess) applied(t *testing.T, revision uint64) {
	t.Helper()
	kittest.Eventually(t, fmt.Sprintf("revision %d to be programmed", revision), func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		status, err := d.client.GetStatus(ctx, &nodeagentv1.GetStatusRequest{})
		switch {
		case err != nil:
			return err
		case status.GetAppliedRevision() < revision:
			return fmt.Errorf("at %d", status.GetAppliedRevision())
		case len(status.GetFailures()) > 0:
			t.Fatalf("%d failures, such as %v", len(status.GetFailures()), status.GetFailures()[0])
		}
		return nil
	})
}

// memory returns the memory of the process in MB, now and at its peak.
func (d *daemonProcess) memory() (now, peak float64) {
	bytesNow, bytesPeak := yardstick.Memory(d.cmd.Process.Pid)
	return float64(bytesNow) / (1 << 20), float64(bytesPeak) / (1 << 20)
}

// syncs returns the number of syncs and their total time in seconds.
func (d *daemonProcess) syncs(t *testing.T) (count, seconds float64) {
	t.Helper()
	res, err := http.Get("http://" + httpAddr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(strings.NewReader(string(body))); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), " ")
		into := map[string]*float64{
			"portolan_nodeagent_sync_duration_seconds_count": &count, "portolan_nodeagent_sync_duration_seconds_sum": &seconds,
		}[key]
		if into == nil {
			continue
		}
		if *into, err = strconv.ParseFloat(value, 64); err != nil {
			t.Fatal(err)
		}
	}
	return count, seconds
}
