package lab

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
)

func TestMain(m *testing.M) {
	PrepareRelease()
	Main(m)
}

// TestLab starts a lab and injects each kind of fault. It checks that the effect of a fault is
// visible while the fault lasts, and not afterwards.
func TestLab(t *testing.T) {
	began := time.Now()
	l := Install(t)
	t.Logf("%d processes are ready after %s", len(l.Machines()), time.Since(began).Round(time.Millisecond))
	t.Run("a cut in one direction stops answers", func(t *testing.T) { testCutOneWay(t, l) })
	t.Run("killed processes become ready after a restart", func(t *testing.T) { testKill(t, l) })
	t.Run("an allocator with a full disk allocates nothing", func(t *testing.T) { testFill(t, l) })
	t.Run("an allocator that lost its store gets back the values in use", func(t *testing.T) { testLoseDisk(t, l) })
	t.Run("calls succeed over throttled and lossy paths", func(t *testing.T) { testImpairedPaths(t, l) })
	t.Run("a slow flush makes commits slow", func(t *testing.T) { testSlowFlush(t, l) })
	t.Run("writes survive a fail-over of Postgres", func(t *testing.T) { testFailOver(t, l) })
	t.Run("the stream is created again after the loss of its data", func(t *testing.T) { testLoseStream(t, l) })
	t.Run("followers take a snapshot after the log was pruned", func(t *testing.T) { testPrune(t, l) })
	t.Run("all followers take a snapshot in a new epoch", func(t *testing.T) { testDiverge(t, l) })
	t.Run("certificates and their authority are replaced", func(t *testing.T) { testRotateAuthority(t, l) })
	t.Run("daemons of the previous release work with current ones", func(t *testing.T) { testDowngrade(t, l) })
	t.Run("the stream gets another leader", func(t *testing.T) { must(t, l.StepDown()); must(t, l.AwaitReady()) })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// getHead calls GetHead of a registry from a machine.
func getHead(l *Lab, from *Machine, registry string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(l.Context(), timeout)
	defer cancel()
	_, err := registryv1.NewChangeServiceClient(l.DialFrom(from, registry)).GetHead(ctx, &registryv1.GetHeadRequest{})
	return err
}

func testCutOneWay(t *testing.T, l *Lab) {
	const timeout = 500 * time.Millisecond
	registry := l.Machine("registry-0")
	for _, direction := range [][2]*Machine{{l.Clients, registry}, {registry, l.Clients}} {
		must(t, l.Cut(direction[0], direction[1]))
		must(t, l.Cut(direction[0], direction[1]))
		must(t, l.EndCut(direction[0], direction[1])) // the other Cut still has an effect
		if err := getHead(l, l.Clients, registry.Name, timeout); err == nil {
			t.Errorf("%s answered although packets from %s to %s are dropped", registry.Name, direction[0].Name, direction[1].Name)
		}
		must(t, getHead(l, l.Clients, "registry-1", stepTimeout))
		must(t, l.EndCut(direction[0], direction[1]))
		must(t, getHead(l, l.Clients, registry.Name, stepTimeout))
	}
}

func testKill(t *testing.T, l *Lab) {
	for _, m := range l.Machines() {
		must(t, m.Kill())
		if err := m.Ready(); err == nil {
			t.Errorf("%s is ready although it was killed", m.Name)
		}
		m.Start()
	}
	must(t, l.AwaitReady())
}

func testFill(t *testing.T, l *Lab) {
	m := l.Machine("allocator-0")
	must(t, m.Fill())
	if _, err := createService(t, l, "full"); err == nil {
		t.Error("a service was created although the allocator's disk is full")
	}
	must(t, m.EndFill())
	awaitCreateService(t, l, "full")
}

func testLoseDisk(t *testing.T, l *Lab) {
	awaitCreateService(t, l, "lost")
	found, err := registryv1.NewServiceServiceClient(l.Dial("registry-0", "registry-1")).GetService(t.Context(), &registryv1.GetServiceRequest{Namespace: "default", Name: "lost"})
	must(t, err)
	m, svc := l.Machine("allocator-0"), found.GetService()
	must(t, m.LoseDisk())
	if entries, err := os.ReadDir(m.Disk); err != nil || len(entries) > 0 {
		t.Errorf("the lost disk has %v, %v", entries, err)
	}
	m.Start()
	allocator := allocatorv1.NewAllocatorServiceClient(l.Dial(m.Name))
	kittest.Eventually(t, "the value in use", func() error {
		list, err := allocator.ListAllocations(t.Context(), &allocatorv1.ListAllocationsRequest{OwnerUid: svc.GetMetadata().GetUid()})
		if err == nil && (len(list.GetAllocations()) != 1 || list.GetAllocations()[0].GetValue() != svc.GetSpec().GetClusterIp()) {
			err = fmt.Errorf("allocated are %v, and the service has %s", list.GetAllocations(), svc.GetSpec().GetClusterIp())
		}
		return err
	})
}

func testImpairedPaths(t *testing.T, l *Lab) {
	registry := l.Machine("registry-0")
	must(t, l.Throttle(registry))
	must(t, l.Lose(l.Clients, registry))
	// A connection is refused after five seconds, in which three packets of its beginning may be lost.
	kittest.Eventually(t, "a call over a lossy path", func() error { return getHead(l, l.Clients, registry.Name, stepTimeout) })
	must(t, l.EndLoss(l.Clients, registry))
	must(t, l.EndThrottle(registry))
	must(t, getHead(l, l.Clients, registry.Name, stepTimeout))
}

// createService creates a service, unless an earlier attempt has created it. It returns the
// service's revision.
func createService(t *testing.T, l *Lab, name string) (uint64, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	services := registryv1.NewServiceServiceClient(l.Dial("registry-0", "registry-1"))
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name},
		Spec:     &corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP}}},
	}
	created, err := services.CreateService(ctx, &registryv1.CreateServiceRequest{Service: svc})
	if apierr.IsAlreadyExists(err) {
		found, err := services.GetService(ctx, &registryv1.GetServiceRequest{Namespace: "default", Name: name})
		return found.GetService().GetMetadata().GetResourceVersion(), err
	}
	return created.GetService().GetMetadata().GetResourceVersion(), err
}

// awaitCreateService calls createService until it succeeds.
func awaitCreateService(t *testing.T, l *Lab, name string) (revision uint64) {
	t.Helper()
	kittest.Eventually(t, "the creation of service "+name, func() (err error) {
		revision, err = createService(t, l, name)
		return err
	})
	return revision
}

func testFailOver(t *testing.T, l *Lab) {
	for n := range 2 { // the second time back to the first server
		names := []string{fmt.Sprintf("before-%d", n), fmt.Sprintf("after-%d", n)}
		awaitCreateService(t, l, names[0])
		must(t, l.FailOver())
		revision := awaitCreateService(t, l, names[1])
		for _, name := range names {
			_, err := registryv1.NewServiceServiceClient(l.Dial("registry-0")).GetService(t.Context(),
				&registryv1.GetServiceRequest{Namespace: "default", Name: name, MinRevision: revision})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		must(t, l.Rejoin())
	}
}

func testLoseStream(t *testing.T, l *Lab) {
	must(t, l.LoseStream())
	for _, m := range l.Machines() {
		m.Start()
	}
	must(t, l.AwaitReady())
}
