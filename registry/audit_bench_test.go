package registry_test

import (
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/audit"
	"portolan.dev/services/kit/yardstick"
)

var measure = flag.Bool("measure", false, "measure the cost of the audit log")

// TestCostOfAudit measures the CPU that the audit log adds to a create, with two registries in
// turns. The figures include the client. The test runs with -args -measure only.
func TestCostOfAudit(t *testing.T) {
	if !*measure {
		t.Skip("allowed: run with -args -measure")
	}
	quiet := func(host *app.Host) { host.Log = slog.New(slog.DiscardHandler) }
	plain := guardWith(t, quiet).as("operator")
	audited := guardWith(t, func(host *app.Host) {
		quiet(host)
		log, err := audit.Open(audit.Options{
			Path: filepath.Join(t.TempDir(), "audit.log"), MaxBytes: 64 << 20, Keep: 1, Daemon: "registry", Log: host.Log, Metrics: host.Metrics,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(log.Close)
		host.Audit = log
	}).as("operator")
	const turns, creates = 20, 1000
	for _, conn := range []*grpc.ClientConn{plain, audited} {
		createMany(t, conn, "warm", creates)
	}
	var without, with time.Duration
	for turn := range turns {
		without += createMany(t, plain, fmt.Sprint(turn), creates)
		with += createMany(t, audited, fmt.Sprint(turn), creates)
	}
	t.Logf("CPU of a create and its client: %s, with an audit log %s", without/(turns*creates), with/(turns*creates))
}

// createMany creates headless services, 32 at a time, and returns the CPU time of this process.
func createMany(t *testing.T, conn *grpc.ClientConn, prefix string, number int) time.Duration {
	t.Helper()
	const clients = 32
	services := registryv1.NewServiceServiceClient(conn)
	before := yardstick.CPUOfSelf()
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for n := range number / clients {
				_, err := services.CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: &corev1.Service{
					Metadata: &corev1.ObjectMeta{Name: fmt.Sprintf("s%s-%d-%d", prefix, c, n)},
					Spec:     &corev1.ServiceSpec{ClusterIp: "None", Ports: []*corev1.ServicePort{{Port: 80}}},
				}})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	return yardstick.CPUOfSelf() - before
}
