package server

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/kubeapi/internal/ownership"
	"portolan.dev/services/kube"
	"portolan.dev/services/object"
)

// managerName returns the name of the manager of a write: the option fieldManager, or else the text before
// the first slash of the client's User-Agent without unprintable characters, as in Kubernetes.
func (w *writing) managerName() string {
	if name := w.query.Get("fieldManager"); name != "" {
		return name
	}
	return managerOf(w.r.UserAgent())
}

func managerOf(userAgent string) string {
	first, _, _ := strings.Cut(userAgent, "/")
	var name strings.Builder
	for _, r := range first {
		if !unicode.IsPrint(r) {
			continue
		}
		if name.Len()+utf8.RuneLen(r) > validation.FieldManagerMaxLength {
			break
		}
		name.WriteRune(r)
	}
	return name.String()
}

// tracker returns the tracker for the fields that the request writes.
func (w *writing) tracker() (*ownership.Tracker, error) {
	if w.subresource == subStatus {
		return ownership.For(w.codec, subStatus)
	}
	return ownership.For(w.codec, "")
}

// own sets the owners of the fields of o, which replaces the stored object. stored is nil for a new object.
// sent are the owners that the client sent. As in Kubernetes an update does not add owners to an object
// that has none.
func (w *writing) own(stored, o object.Object, sent []metav1.ManagedFieldsEntry) error {
	if stored != nil && len(stored.GetMetadata().GetManagedFields()) == 0 && len(sent) == 0 {
		return nil
	}
	t, err := w.tracker()
	if err != nil {
		return err
	}
	before := t.Empty()
	if stored != nil {
		before = w.codec.Write(stored)
	}
	after := w.codec.Write(w.complete(stored, o))
	after.SetManagedFields(sent)
	owners, err := t.Update(before, after, w.manager)
	if err != nil {
		w.server.cfg.Log.Warn("owners of fields cannot be tracked", "kind", w.codec.Kind.Name, "name", w.name, "err", err)
		return nil // the registry keeps the stored owners
	}
	setOwners(o, owners)
	return nil
}

// setOwners sets the owners of the fields of an object. If there are none, one empty entry tells the registry
// to remove the stored owners. A new owner of fields with unchanged values has no time yet, and gets the
// present time.
func setOwners(o object.Object, owners []metav1.ManagedFieldsEntry) {
	entries := kube.ReadOwners(owners)
	for _, entry := range entries {
		if entry.Time == nil {
			entry.Time = timestamppb.New(time.Now().Truncate(time.Second))
		}
	}
	if len(entries) == 0 {
		entries = []*corev1.ManagedFields{{}}
	}
	object.MetaOf(o).ManagedFields = entries
}

// complete returns an object as the registry completes it: with the default values, and with the parts of
// the stored object that the write does not change. A new object lacks the fields that the registry derives
// from others, such as the list clusterIPs from clusterIP, because they have no owner, as in Kubernetes.
func (w *writing) complete(stored, o object.Object) object.Object {
	completed, kind := object.Clone(o), w.codec.Kind
	switch {
	case w.subresource == subStatus:
		kind.PrepareStatusUpdate(completed, stored)
		return completed
	case stored == nil:
		kind.Default(completed)
		return completed
	}
	kind.Default(completed)
	kind.PrepareUpdate(completed, stored)
	return completed
}

// newest returns the newest version of the stored object.
func (w *writing) newest() (object.Object, error) {
	revision, err := w.server.cfg.Registry.Head(w.ctx)
	if err != nil {
		return nil, err
	}
	return w.server.cfg.Registry.Get(w.ctx, w.codec.Kind, w.namespace, w.name, revision)
}

// base returns the stored object for an update of the given version. If the registry's view has this version,
// base does not ask for the newest revision. Version 0 means the newest.
func (w *writing) base(version uint64) (object.Object, error) {
	if version != 0 {
		stored, err := w.server.cfg.Registry.Get(w.ctx, w.codec.Kind, w.namespace, w.name, 0)
		if err == nil && stored.GetMetadata().GetResourceVersion() == version {
			return stored, nil
		}
	}
	return w.newest()
}
