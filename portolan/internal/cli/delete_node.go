package cli

import (
	"context"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/internal/certs"
	"portolan.dev/portolan/internal/client"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/identity"
)

// revokedAgent returns the newest Revocation of the agent of a node that was deleted. It returns nil
// for other objects, and if the installation has no certificates.
func revokedAgent(ctx context.Context, registry *client.Client, d client.Deletion) (*corev1.Revocation, error) {
	if d.Key.Kind != "Node" || d.DryRun {
		return nil, nil
	}
	kind, _ := kinds.Named("Revocation")
	agent := identity.ID{Role: identity.NodeAgent, Name: d.Key.Name}
	found, _, err := registry.List(ctx, kind, client.Query{Fields: "spec.identity=" + agent.Path()})
	if status.Code(err) == codes.Unimplemented { // a registry of the previous release revokes nothing
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var newest *corev1.Revocation
	for _, o := range found {
		if r, ok := o.(*corev1.Revocation); ok && (newest == nil || timeOf(r).After(timeOf(newest))) {
			newest = r
		}
	}
	return newest, nil
}

// recordDeletedAgent records the Revocation of a deleted node's agent in the folder of the
// authority, if that is here, and says what became of the agent.
func recordDeletedAgent(out io.Writer, dir string, r *corev1.Revocation) {
	if r == nil {
		return
	}
	path := r.GetSpec().GetIdentity()
	_, _ = fmt.Fprintf(out, "The certificates of %s are revoked, so this agent cannot write any more.\n", path)
	if err := recordIn(dir, r); err != nil {
		_, _ = fmt.Fprintf(out, "NATS still lets it in: run portolan certs revoke %s in the folder of the authority, for portolan certs nats-config (%v).\n", path, err)
	} else {
		_, _ = fmt.Fprintln(out, "NATS lets it in until its servers have the output of portolan certs nats-config and got nats-server --signal reload.")
	}
	_, _ = fmt.Fprintf(out, "A node that is set up again under this name needs a new certificate: portolan certs issue %s --force\n", path)
}

func recordIn(dir string, r *corev1.Revocation) error {
	folder, err := certs.Open(dir)
	if err != nil {
		return err
	}
	return folder.RecordRevoked(certs.Revoked{Identity: r.GetSpec().GetIdentity(), Time: timeOf(r), Reason: r.GetSpec().GetReason()})
}
