package server

import (
	kubev1 "k8s.io/api/core/v1"

	"portolan.dev/services/kube"
)

// finalized returns the stored namespace with the finalizers of another one. The subresource finalize
// writes nothing else.
func (w *writing) finalized(from kube.Object) (kube.Object, error) {
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
func (w *writing) current() (kube.Object, error) {
	stored, err := w.newest()
	if err != nil {
		return nil, err
	}
	return w.codec.Write(stored), nil
}
