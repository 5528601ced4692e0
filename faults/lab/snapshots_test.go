package lab

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
)

// snapshots returns the number of snapshots that each follower has taken for a reason.
func snapshots(t *testing.T, followers []*Machine, reason string) map[*Machine]float64 {
	t.Helper()
	taken := map[*Machine]float64{}
	for _, m := range followers {
		n, err := m.Metric("portolan_changes_snapshots_total", fmt.Sprintf("reason=%q", reason))
		must(t, err)
		taken[m] = n
	}
	return taken
}

// awaitSnapshots waits until each follower in before has applied a revision, and has taken more
// snapshots for a reason than before says.
func awaitSnapshots(t *testing.T, before map[*Machine]float64, reason string, revision uint64) {
	t.Helper()
	for m, n := range before {
		kittest.Eventually(t, m.Name, func() error {
			if now := snapshots(t, []*Machine{m}, reason)[m]; now == n {
				return fmt.Errorf("the follower took no snapshot with the reason %s", reason)
			}
			return m.checkApplied(revision)
		})
	}
}

// testPrune cuts followers off until the changes that they lack have been pruned from the log, and
// checks that they then take a snapshot.
func testPrune(t *testing.T, l *Lab) {
	var followers []*Machine
	for _, m := range l.followers() {
		if m.Name != "allocator-0" && m.Name != "endpointctl-0" { // these two keep their connections
			followers = append(followers, m)
		}
	}
	sources := slices.Concat(l.brokers, []*Machine{l.Machine("registry-0"), l.Machine("registry-1")})
	impair := func(do func(from, to *Machine) error) {
		t.Helper()
		for _, m := range followers {
			for _, source := range sources {
				must(t, errors.Join(do(m, source), do(source, m)))
			}
		}
	}
	revision := awaitCreateService(t, l, "before-the-cut")
	for _, m := range followers {
		kittest.Eventually(t, m.Name, func() error { return m.checkApplied(revision) })
	}
	before := snapshots(t, followers, "pruned")
	impair(l.Cut)
	kittest.Eventually(t, "the NATS servers close the followers' connections", func() error { return l.checkNATSConnections(followers, false) })
	revision = fillLog(t, l)
	impair(l.EndCut)
	awaitSnapshots(t, before, "pruned", revision)
}

// fillLog writes until the changes after the current revision have been pruned from the log. It
// returns the newest revision.
func fillLog(t *testing.T, l *Lab) (revision uint64) {
	t.Helper()
	conn := l.Dial("registry-0")
	namespaces, log := registryv1.NewNamespaceServiceClient(conn), registryv1.NewChangeServiceClient(conn)
	start, err := log.GetHead(t.Context(), &registryv1.GetHeadRequest{})
	must(t, err)
	created, err := namespaces.CreateNamespace(t.Context(), &registryv1.CreateNamespaceRequest{
		Namespace: &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "busy"}}})
	must(t, err)
	ns := created.GetNamespace()
	for n := range 2 * retention {
		ns.Metadata.Labels = map[string]string{"n": strconv.Itoa(n)}
		updated, err := namespaces.UpdateNamespace(t.Context(), &registryv1.UpdateNamespaceRequest{Namespace: ns})
		must(t, err)
		ns = updated.GetNamespace()
	}
	kittest.Eventually(t, "a pruned log", func() error {
		_, err := log.ListChanges(t.Context(), &registryv1.ListChangesRequest{AfterRevision: start.GetRevision(), Epoch: start.GetEpoch(), Limit: 1})
		if apierr.Code(err) == codes.OutOfRange {
			return nil
		}
		return fmt.Errorf("the log after revision %d: %v, want OUT_OF_RANGE", start.GetRevision(), err)
	})
	return ns.GetMetadata().GetResourceVersion()
}

// testDiverge gives the log another epoch, and checks that all followers take a snapshot.
func testDiverge(t *testing.T, l *Lab) {
	rebuilds := func() (sum float64) {
		for _, name := range []string{"registry-0", "registry-1"} {
			n, err := l.Machine(name).Metric("portolan_changes_relay_rebuilds_total")
			must(t, err)
			sum += n
		}
		return sum
	}
	made, before := rebuilds(), snapshots(t, l.followers(), "epoch")
	must(t, l.Diverge())
	kittest.Eventually(t, "a new stream", func() error {
		if rebuilds() == made {
			return errors.New("the relay has not created the stream again")
		}
		return nil
	})
	awaitSnapshots(t, before, "epoch", awaitCreateService(t, l, "in-the-new-epoch"))
}
