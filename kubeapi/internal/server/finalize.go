package server

import (
	kubev1 "k8s.io/api/core/v1"

	"portolan.dev/kubeapi/internal/convert"
)

// finalized returns the stored namespace with the finalizers of another one, which is all that the
// subresource finalize writes.
func (w *writing) finalized(from convert.Object) (convert.Object, error) {
	stored, err := w.current()
	if err != nil {
		return nil, err
	}
	to, isNamespace := stored.(*kubev1.Namespace)
	wanted, ok := from.(*kubev1.Namespace)
	if !isNamespace || !ok {
		return nil, errUnknownPath
	}
	to.Spec.Finalizers = wanted.Spec.Finalizers
	if version := from.GetResourceVersion(); version != "" {
		to.ResourceVersion = version
	}
	return to, nil
}

// current returns the stored object.
func (w *writing) current() (convert.Object, error) {
	revision, err := w.server.cfg.Registry.Head(w.ctx)
	if err != nil {
		return nil, err
	}
	stored, err := w.server.cfg.Registry.Get(w.ctx, w.codec.Kind, w.namespace, w.name, revision)
	if err != nil {
		return nil, err
	}
	return w.codec.Write(stored), nil
}
