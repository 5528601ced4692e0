package rpc_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
)

// serverFiles is the environment variable with the certificate files of the server of
// BenchmarkRefusedCall, separated by commas.
const serverFiles = "PORTOLAN_TEST_SERVER_FILES"

// serverAudits is the environment variable that, if it is set, gives that server an audit log with
// all unary calls.
const serverAudits = "PORTOLAN_TEST_SERVER_AUDITS"

// questionOfCost is the request that the server answers with its cost so far.
const questionOfCost = "cost"

// TestServerOfBenchmark is the server of BenchmarkRefusedCall, in a process of its own. It runs
// until its standard input ends.
func TestServerOfBenchmark(t *testing.T) {
	files := strings.Split(os.Getenv(serverFiles), ",")
	if len(files) != 3 {
		t.Skip("allowed: only for BenchmarkRefusedCall")
	}
	log := slog.New(slog.DiscardHandler)
	source, err := identity.Open(identity.Options{Files: identity.Files{Cert: files[0], Key: files[1], CA: files[2]}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	options := rpc.ServerOptions{Log: log, Metrics: obs.NewMetrics(), Health: health.New(log), Identity: source, Authorizer: registryOnly{}}
	if os.Getenv(serverAudits) != "" {
		newAuditFile(t).set(&options)
	}
	server := rpc.NewServer(options)
	e := &echo{unary: func(_ context.Context, req *text) (*text, error) {
		if req.Value == questionOfCost {
			return spent()
		}
		return req, nil
	}}
	e.register(server)
	lis := kittest.Listen(t)
	fmt.Println("serving", lis.Addr())
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString(0) // until the benchmark closes it
		cancel()
	}()
	if err := server.Serve(ctx, lis); err != nil {
		t.Fatal(err)
	}
}

// spent returns the CPU time of the process in microseconds, and the bytes that it allocated.
func spent() (*text, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return nil, err
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return newText(fmt.Sprint((usage.Utime.Nano()+usage.Stime.Nano())/1000, memory.TotalAlloc)), nil
}

// startServer starts TestServerOfBenchmark and returns its address.
func startServer(b *testing.B, files identity.Files, env ...string) string {
	b.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestServerOfBenchmark$", "-test.v")
	child.Env = append(append(os.Environ(), serverFiles+"="+strings.Join([]string{files.Cert, files.Key, files.CA}, ",")), env...)
	in, err := child.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := child.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		if err := child.Wait(); err != nil {
			b.Error(err)
		}
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if addr, ok := strings.CutPrefix(lines.Text(), "serving "); ok {
			return addr
		}
	}
	b.Fatal("the server does not start")
	return ""
}

// BenchmarkRefusedCall compares the server's costs of two calls: one that it refuses because of the
// caller's role, and one that it answers. Both run in turns, on one connection each with 64 calls at a time.
func BenchmarkRefusedCall(b *testing.B) { compareRefused(b) }

// BenchmarkRefusedCallWithAudit is BenchmarkRefusedCall with an audit log. The log has a line for every
// accepted call, and as many lines for refused calls as the rate of one caller allows.
func BenchmarkRefusedCallWithAudit(b *testing.B) { compareRefused(b, serverAudits+"=1") }

func compareRefused(b *testing.B, env ...string) {
	certs := kittest.NewCertificates(b)
	addr := startServer(b, certs.Issue("allocator", time.Hour), env...)
	dial := func(who string) *grpc.ClientConn {
		conn, err := rpc.TCP().Dial(addr, certs.Source(who).DialOption(identity.Allocator))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { conn.Close() })
		return conn
	}
	registry, viewer, req := dial("registry"), dial("viewer"), newText(strings.Repeat("x", 500))
	cost := func(conn *grpc.ClientConn, want codes.Code) (cpu, bytes int) {
		cpuBefore, bytesBefore := costOf(b, registry)
		var clients sync.WaitGroup
		for range clientsPerTurn {
			clients.Go(func() {
				for range callsPerTurn / clientsPerTurn {
					if err := conn.Invoke(b.Context(), unaryMethod, req, newText("")); status.Code(err) != want {
						b.Error(err)
					}
				}
			})
		}
		clients.Wait()
		cpuAfter, bytesAfter := costOf(b, registry)
		return cpuAfter - cpuBefore, bytesAfter - bytesBefore
	}
	cost(viewer, codes.PermissionDenied) // connects
	var cpu, bytes [2]float64            // of accepted and of refused calls
	for range b.N {
		for i, turn := range []struct {
			conn *grpc.ClientConn
			want codes.Code
		}{{registry, codes.OK}, {viewer, codes.PermissionDenied}} {
			us, n := cost(turn.conn, turn.want)
			cpu[i] += float64(us)
			bytes[i] += float64(n)
		}
	}
	calls := float64(b.N * callsPerTurn)
	b.ReportMetric(0, "ns/op") // the time of both turns says nothing
	b.ReportMetric(cpu[0]/calls, "accepted-cpu-µs")
	b.ReportMetric(cpu[1]/calls, "refused-cpu-µs")
	b.ReportMetric(cpu[1]/cpu[0], "refused/accepted-cpu")
	b.ReportMetric(bytes[0]/calls, "accepted-B")
	b.ReportMetric(bytes[1]/calls, "refused-B")
}

// callsPerTurn is the number of calls between two questions of cost, so that the questions hardly
// count. clientsPerTurn is the number of calls at a time. With one at a time, most of the cost is
// the wake-up of an idle process.
const (
	callsPerTurn   = 6400
	clientsPerTurn = 64
)

func costOf(b *testing.B, conn *grpc.ClientConn) (cpu, bytes int) {
	b.Helper()
	answer := newText("")
	if err := conn.Invoke(b.Context(), unaryMethod, newText(questionOfCost), answer); err != nil {
		b.Fatal(err)
	}
	if _, err := fmt.Sscan(answer.Value, &cpu, &bytes); err != nil {
		b.Fatal(err)
	}
	return cpu, bytes
}
