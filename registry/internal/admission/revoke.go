package admission

import (
	"context"
	"fmt"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/view"
	"portolan.dev/services/spec"
)

// revoke revokes the certificates of the identities that belong to an object, before the object is
// deleted. Otherwise the agent of a deleted node would go on writing, and would create its Node
// again, and the edge on it would go on reading the keys of certificates.
//
// Each Revocation is a write of its own before the deletion, because a commit has one object. If the
// registry ends between them, or the deletion loses a race, the Node stays without an agent that
// may write, and the operator deletes it again. A second Revocation of the same identity does no
// harm. In the other order the certificates of an agent could stay valid.
func (w *Writer) revoke(ctx context.Context, row *rules.Kind, old *view.Item) error {
	for _, path := range row.IdentitiesOf(old.Object) {
		revocation := &corev1.Revocation{
			Metadata: &corev1.ObjectMeta{GenerateName: spec.IdentityPrefix(path)},
			Spec:     &corev1.RevocationSpec{Identity: path, Reason: fmt.Sprintf("%s %s was deleted", old.Key.Kind, old.Key.Name)},
		}
		if _, err := w.Create(ctx, revocation, Options{}); err != nil {
			return fmt.Errorf("revoke the certificates of %s: %w", path, err)
		}
	}
	return nil
}
