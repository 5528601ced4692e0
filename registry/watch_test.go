package registry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
)

// lease creates a lease, the cheapest kind of object: it allocates nothing.
func (r *replica) lease(t *testing.T, name string, labels map[string]string) *corev1.Lease {
	t.Helper()
	answer, err := r.leases.CreateLease(within(t), &registryv1.CreateLeaseRequest{Lease: &corev1.Lease{Metadata: &corev1.ObjectMeta{Name: name, Labels: labels}}})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetLease()
}

func (r *replica) relabel(t *testing.T, name string, labels map[string]string) *corev1.Lease {
	t.Helper()
	answer, err := r.leases.UpdateLease(within(t), &registryv1.UpdateLeaseRequest{Lease: &corev1.Lease{Metadata: &corev1.ObjectMeta{Name: name, Labels: labels}}})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetLease()
}

func (r *replica) drop(t *testing.T, name string) {
	t.Helper()
	if _, err := r.leases.DeleteLease(within(t), &registryv1.DeleteLeaseRequest{Name: name}); err != nil {
		t.Fatal(err)
	}
}

// watcher reads a watch one change at a time.
type watcher struct {
	t        *testing.T
	stream   grpc.ServerStreamingClient[registryv1.WatchLeasesResponse]
	pending  []string
	revision uint64
	synced   bool
}

func (r *replica) watch(t *testing.T, req *registryv1.WatchLeasesRequest) *watcher {
	t.Helper()
	stream, err := r.leases.WatchLeases(within(t), req)
	if err != nil {
		t.Fatal(err)
	}
	return &watcher{t: t, stream: stream}
}

// next returns the next change as text: "PUT name" or "DELETE name".
func (w *watcher) next() string {
	w.t.Helper()
	for len(w.pending) == 0 {
		if err := w.read(); err != nil {
			w.t.Fatalf("watch: %v", err)
		}
	}
	change := w.pending[0]
	w.pending = w.pending[1:]
	return change
}

func (w *watcher) read() error {
	answer, err := w.stream.Recv()
	if err != nil {
		return err
	}
	if answer.GetRevision() < w.revision {
		w.t.Errorf("the stream's revision went from %d to %d", w.revision, answer.GetRevision())
	}
	w.revision, w.synced = answer.GetRevision(), w.synced || answer.GetSynced()
	for _, change := range answer.GetChanges() {
		kind := strings.TrimPrefix(change.GetType().String(), "CHANGE_TYPE_")
		w.pending = append(w.pending, kind+" "+change.GetLease().GetMetadata().GetName())
	}
	return nil
}

// until reads until the stream is complete up to a revision.
func (w *watcher) until(revision uint64) {
	w.t.Helper()
	for w.revision < revision {
		if err := w.read(); err != nil {
			w.t.Fatalf("watch: %v", err)
		}
	}
}

func (w *watcher) want(changes ...string) {
	w.t.Helper()
	for _, want := range changes {
		if got := w.next(); got != want {
			w.t.Fatalf("change %q, want %q", got, want)
		}
	}
}

func TestWatchFromTheBeginning(t *testing.T) {
	_, r := run(t)
	r.lease(t, "b", nil)
	r.lease(t, "a", nil)
	w := r.watch(t, &registryv1.WatchLeasesRequest{})
	w.want("PUT a", "PUT b")
	if !w.synced {
		t.Error("the present objects came without the end being marked")
	}
	last := r.lease(t, "c", nil)
	r.relabel(t, "a", map[string]string{"x": "y"})
	r.drop(t, "b")
	w.want("PUT c", "PUT a", "DELETE b")
	if w.revision <= last.GetMetadata().GetResourceVersion() {
		t.Errorf("the stream is at %d after a change later than %d", w.revision, last.GetMetadata().GetResourceVersion())
	}
}

func TestWatchOfNothingIsSyncedAtOnce(t *testing.T) {
	_, r := run(t)
	w := r.watch(t, &registryv1.WatchLeasesRequest{})
	if err := w.read(); err != nil || !w.synced || w.revision == 0 {
		t.Errorf("first answer: synced %v, revision %d, %v", w.synced, w.revision, err)
	}
}

func TestWatchWithASelector(t *testing.T) {
	_, r := run(t)
	blue, green := map[string]string{"color": "blue"}, map[string]string{"color": "green"}
	r.lease(t, "was-blue", blue)
	r.lease(t, "never", green)
	w := r.watch(t, &registryv1.WatchLeasesRequest{LabelSelector: "color=blue", Namespace: "default"})
	w.want("PUT was-blue")
	r.relabel(t, "never", map[string]string{"color": "red"})
	r.relabel(t, "was-blue", green)
	r.relabel(t, "never", blue)
	r.drop(t, "was-blue")
	r.drop(t, "never")
	w.want("DELETE was-blue", "PUT never", "DELETE never")

	bad := r.watch(t, &registryv1.WatchLeasesRequest{LabelSelector: "a in (", FieldSelector: "no=such"})
	if err := bad.read(); len(apierr.ViolationsOf(err)) != 2 {
		t.Errorf("bad selectors: %v", err)
	}
}

func TestBookmarks(t *testing.T) {
	_, r := run(t, func(c *registry.Config) { c.BookmarkInterval = 10 * time.Millisecond })
	w := r.watch(t, &registryv1.WatchLeasesRequest{})
	other, err := r.namespaces.CreateNamespace(within(t), &registryv1.CreateNamespaceRequest{Namespace: &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "n"}}})
	if err != nil {
		t.Fatal(err)
	}
	w.until(other.GetNamespace().GetMetadata().GetResourceVersion())
}

// TestWatchResumes resumes from every revision, including those that only the log still has.
func TestWatchResumes(t *testing.T) {
	_, r := run(t, func(c *registry.Config) { c.WatchBuffer = 2 })
	var want []string
	var revisions []uint64
	for n := range 8 {
		name := fmt.Sprintf("l%d", n)
		want = append(want, "PUT "+name)
		revisions = append(revisions, r.lease(t, name, nil).GetMetadata().GetResourceVersion())
	}
	for n, revision := range revisions[:7] {
		w := r.watch(t, &registryv1.WatchLeasesRequest{FromRevision: revision})
		w.want(want[n+1:]...)
	}
	w := r.watch(t, &registryv1.WatchLeasesRequest{FromRevision: revisions[7]})
	r.drop(t, "l0")
	w.want("DELETE l0")
}

func TestWatchFromTheFuture(t *testing.T) {
	_, r := run(t)
	w := r.watch(t, &registryv1.WatchLeasesRequest{FromRevision: 1 << 40})
	if err := w.read(); apierr.Code(err) != codes.OutOfRange {
		t.Errorf("watch from the future: %v", err)
	}
}

func TestWatchFromPrunedRevision(t *testing.T) {
	_, r := run(t, func(c *registry.Config) { c.WatchBuffer, c.LogRetention, c.ReapInterval = 1, 3, 10*time.Millisecond })
	first := r.lease(t, "first", nil).GetMetadata().GetResourceVersion()
	for n := range 10 {
		r.lease(t, fmt.Sprintf("l%d", n), nil)
	}
	kittest.Eventually(t, "pruned log", func() error {
		ctx, cancel := context.WithCancel(within(t))
		defer cancel()
		stream, err := r.leases.WatchLeases(ctx, &registryv1.WatchLeasesRequest{FromRevision: first})
		if err != nil {
			return err
		}
		_, err = stream.Recv()
		oldest, ok := apierr.OldestRevision(err)
		if apierr.Code(err) != codes.OutOfRange || !ok || oldest <= first {
			return fmt.Errorf("watch of an old revision: %v (oldest %d)", err, oldest)
		}
		return nil
	})
}

// TestSlowWatcher opens a watch that reads nothing while far more is written than the connection
// buffers. Writers must not be delayed, and the watch must end with an error that says where to
// resume.
func TestSlowWatcher(t *testing.T) {
	_, r := run(t, func(c *registry.Config) { c.WatchBuffer = 4 })
	w := r.watch(t, &registryv1.WatchLeasesRequest{})
	if err := w.read(); err != nil {
		t.Fatal(err)
	}
	r.lease(t, "big", nil)
	big := strings.Repeat("x", 200<<10)
	for n := range 40 {
		if _, err := r.leases.UpdateLease(within(t), &registryv1.UpdateLeaseRequest{Lease: &corev1.Lease{
			Metadata: &corev1.ObjectMeta{Name: "big", Annotations: map[string]string{"n": fmt.Sprint(n), "data": big}},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	for err == nil {
		err = w.read()
	}
	if _, retry := apierr.RetryAfter(err); !apierr.IsUnavailable(err) || !retry {
		t.Fatalf("the slow watcher ended with %v", err)
	}
	resumed := r.watch(t, &registryv1.WatchLeasesRequest{FromRevision: w.revision})
	head, err := r.changes.GetHead(within(t), &registryv1.GetHeadRequest{})
	if err != nil {
		t.Fatal(err)
	}
	resumed.until(head.GetRevision())
}

func TestPagesAreOfOneRevision(t *testing.T) {
	_, r := run(t)
	for n := range 7 {
		r.lease(t, fmt.Sprintf("l%d", n), nil)
	}
	req := &registryv1.ListLeasesRequest{PageSize: 3}
	first, err := r.leases.ListLeases(within(t), req)
	if err != nil || len(first.GetLeases()) != 3 || first.GetNextPageToken() == "" {
		t.Fatalf("first page = %v, %v", first, err)
	}
	r.drop(t, "l4")
	r.lease(t, "l3a", nil)
	if got, _ := r.restOfList(t, first); strings.Join(got, " ") != "l0 l1 l2 l3 l4 l5 l6" {
		t.Errorf("the pages have %v", got)
	}
	w := r.watch(t, &registryv1.WatchLeasesRequest{FromRevision: first.GetRevision()})
	w.want("DELETE l4", "PUT l3a")

	for name, bad := range map[string]*registryv1.ListLeasesRequest{
		"nonsense":         {PageToken: "nonsense"},
		"half a token":     {PageToken: first.GetNextPageToken()[:len(first.GetNextPageToken())/2]},
		"another selector": {PageToken: first.GetNextPageToken(), LabelSelector: "a=b"},
	} {
		if _, err := r.leases.ListLeases(within(t), bad); apierr.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// restOfList continues a list of leases on this replica and returns the names on all its pages and
// the list's revision.
func (r *replica) restOfList(t *testing.T, page *registryv1.ListLeasesResponse) (names []string, revision uint64) {
	t.Helper()
	revision = page.GetRevision()
	for {
		for _, lease := range page.GetLeases() {
			names = append(names, lease.GetMetadata().GetName())
		}
		if page.GetRevision() != revision {
			t.Errorf("a page is of revision %d, the first of %d", page.GetRevision(), revision)
		}
		if page.GetNextPageToken() == "" {
			return names, revision
		}
		var err error
		if page, err = r.leases.ListLeases(within(t), &registryv1.ListLeasesRequest{PageSize: 3, PageToken: page.GetNextPageToken()}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPageTokenOutlivesItsReplica checks that a restarted registry continues a list if it still has
// the changes since the list's revision, and otherwise returns an error.
func TestPageTokenOutlivesItsReplica(t *testing.T) {
	i, r := run(t)
	for n := range 7 {
		r.lease(t, fmt.Sprintf("l%d", n), nil)
	}
	first, err := r.leases.ListLeases(within(t), &registryv1.ListLeasesRequest{PageSize: 3})
	if err != nil {
		t.Fatal(err)
	}
	r.stop()
	r = i.start()
	r.drop(t, "l5")
	if got, _ := r.restOfList(t, first); strings.Join(got, " ") != "l0 l1 l2 l3 l4 l5 l6" {
		t.Errorf("the pages have %v", got)
	}
	r.stop()
	r = i.start()
	_, err = r.leases.ListLeases(within(t), &registryv1.ListLeasesRequest{PageSize: 3, PageToken: first.GetNextPageToken()})
	if oldest, ok := apierr.OldestRevision(err); apierr.Code(err) != codes.OutOfRange || !ok || oldest <= first.GetRevision() {
		t.Errorf("a token whose revision is not kept: %v", err)
	}
}

func TestMinRevision(t *testing.T) {
	_, r := run(t)
	at := r.lease(t, "a", nil).GetMetadata().GetResourceVersion()
	if _, err := r.leases.GetLease(within(t), &registryv1.GetLeaseRequest{Name: "a", MinRevision: at}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(within(t), 200*time.Millisecond)
	defer cancel()
	_, err := r.leases.ListLeases(ctx, &registryv1.ListLeasesRequest{MinRevision: at + 1000})
	if code := apierr.Code(err); code != codes.Unavailable && code != codes.DeadlineExceeded {
		t.Errorf("a list of the future: %v", err)
	}
}
