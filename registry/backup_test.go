package registry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

func (r *replica) export(t *testing.T) []*registryv1.BackupRecord {
	t.Helper()
	stream, err := registryv1.NewBackupServiceClient(r).Export(within(t), &registryv1.ExportRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var records []*registryv1.BackupRecord
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return records
		}
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, answer.GetRecord())
	}
}

func (r *replica) restore(t *testing.T, records []*registryv1.BackupRecord) (*registryv1.ImportResponse, error) {
	t.Helper()
	stream, err := registryv1.NewBackupServiceClient(r).Import(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records {
		if stream.Send(&registryv1.ImportRequest{Record: record}) != nil {
			break // the response has the reason
		}
	}
	return stream.CloseAndRecv()
}

// everything returns all objects by key, without the Leases of reserves, which come and go with the
// processes.
func (r *replica) everything(t *testing.T) map[object.Key]object.Object {
	t.Helper()
	stream, err := r.changes.Snapshot(within(t), &registryv1.SnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[object.Key]object.Object{}
	for {
		batch, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, envelope := range batch.GetObjects() {
			o := object.Unwrap(envelope)
			all[object.KeyOf(o)] = o
		}
		if batch.GetComplete() {
			if int(batch.GetTotal()) != len(all) {
				t.Errorf("the snapshot has %d objects and says %d", len(all), batch.GetTotal())
			}
			maps.DeleteFunc(all, func(_ object.Key, o object.Object) bool {
				lease, ok := o.(*corev1.Lease)
				return ok && spec.IsReserveLease(lease)
			})
			return all
		}
	}
}

func TestBackup(t *testing.T) {
	_, source := run(t)
	for n := range 450 { // more than two batches
		source.lease(t, fmt.Sprintf("l%d", n), map[string]string{"a": "b", "c": "d", "e": fmt.Sprint(n)})
	}
	source.create(t, web("web"))
	want, backup := source.everything(t), source.export(t)

	_, target := run(t)
	answer, err := target.restore(t, backup)
	if err != nil || answer.GetObjects() != uint64(len(want)) {
		t.Fatalf("import = %v, %v; want %d objects", answer, err, len(want))
	}
	got := target.everything(t)
	for key, o := range want {
		if other, ok := got[key]; !ok || !object.Equal(o, other) {
			t.Errorf("%s was\n%v, is\n%v", key, o, other)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d objects, want %d", len(got), len(want))
	}
	next := target.lease(t, "after", nil)
	if next.GetMetadata().GetResourceVersion() <= answer.GetRevision() {
		t.Errorf("the first write after the import has revision %d, the import ended at %d", next.GetMetadata().GetResourceVersion(), answer.GetRevision())
	}
	if _, err := target.restore(t, backup); apierr.Code(err) != codes.FailedPrecondition {
		t.Errorf("import into a registry that is not empty: %v", err)
	}
}

// TestImportBesideDaemons imports a backup into a registry to which daemons write all the time, as they do in
// an installation that was just started. Settings of an operator must not be replaced.
func TestImportBesideDaemons(t *testing.T) {
	_, source := run(t)
	source.create(t, web("web"))
	backup := source.export(t)

	_, target := run(t)
	node, err := target.nodes.CreateNode(within(t), &registryv1.CreateNodeRequest{Node: &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n1"}}})
	if err != nil {
		t.Fatal(err)
	}
	target.lease(t, "endpointctl", nil)
	target.lease(t, "lbctl-b", nil)
	node.Node.Spec = &corev1.NodeSpec{PodCidrs: []string{"10.64.1.0/24"}}
	if _, err := target.nodes.UpdateNode(within(t), &registryv1.UpdateNodeRequest{Node: node.GetNode()}); err != nil {
		t.Fatal(err)
	}
	if _, err := target.restore(t, backup); apierr.Code(err) != codes.FailedPrecondition {
		t.Errorf("import over the settings of a node: %v", err)
	}
	if _, err := target.nodes.DeleteNode(within(t), &registryv1.DeleteNodeRequest{Name: "n1"}); err != nil {
		t.Fatal(err)
	}
	stop := kittest.Run(t, "a daemon", func(ctx context.Context) error {
		for ctx.Err() == nil {
			// Errors are those of an agent during an import.
			_, _ = target.nodes.CreateNode(ctx, &registryv1.CreateNodeRequest{Node: &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n2"}}})
			_, _ = target.nodes.DeleteNode(ctx, &registryv1.DeleteNodeRequest{Name: "n2"})
		}
		return nil
	})
	answer, err := target.restore(t, backup)
	stop()
	if err != nil || answer.GetInstallation() == "" || answer.GetInstallation() == backup[0].GetHeader().GetInstallation() {
		t.Fatalf("import = %v, %v; the backup is of %q", answer, err, backup[0].GetHeader().GetInstallation())
	}
	if _, err := target.services.GetService(within(t), &registryv1.GetServiceRequest{Name: "web"}); err != nil {
		t.Error(err)
	}
}

func TestBrokenBackups(t *testing.T) {
	_, source := run(t)
	source.lease(t, "a", nil)
	whole := source.export(t)
	_, target := run(t)
	before := target.everything(t)
	last := len(whole) - 1
	foreign := &registryv1.BackupRecord{Record: &registryv1.BackupRecord_Objects{Objects: &registryv1.BackupObjects{Objects: []*corev1.Object{
		object.Wrap(&corev1.Lease{Metadata: &corev1.ObjectMeta{Name: "b", Namespace: "default", Uid: "u", ResourceVersion: 1}}),
	}}}}
	for name, records := range map[string][]*registryv1.BackupRecord{
		"nothing":          nil,
		"cut off":          whole[:last],
		"without a header": whole[1:],
		"without objects":  {whole[0], whole[last]},
		"added to":         slices.Insert(slices.Clone(whole), last, foreign),
		"twice":            slices.Concat(whole, whole),
		"of the future":    slices.Insert(slices.Clone(whole[1:]), 0, &registryv1.BackupRecord{Record: &registryv1.BackupRecord_Header{Header: &registryv1.BackupHeader{Format: 2}}}),
		"an empty record":  {{}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := target.restore(t, records); apierr.Code(err) != codes.InvalidArgument {
				t.Errorf("import: %v", err)
			}
		})
	}
	if after := target.everything(t); len(after) != len(before) {
		t.Errorf("something was imported: %v", after)
	}
}

// TestWatchersLearnOfAnImport checks that a watch ends after an import, because revisions now stand
// for other changes.
func TestWatchersLearnOfAnImport(t *testing.T) {
	_, source := run(t)
	source.lease(t, "a", nil)
	backup := source.export(t)
	_, target := run(t)
	w := target.watch(t, &registryv1.WatchLeasesRequest{})
	if err := w.read(); err != nil {
		t.Fatal(err)
	}
	if _, err := target.restore(t, backup); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the watch ends", func() error {
		if err := w.read(); apierr.Code(err) != codes.OutOfRange {
			return fmt.Errorf("it goes on: %w", err)
		}
		return nil
	})
	again := target.watch(t, &registryv1.WatchLeasesRequest{})
	again.want("PUT a")
}
