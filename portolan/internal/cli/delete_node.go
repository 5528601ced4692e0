package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/internal/certs"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/identity"
)

// revokedDaemons returns the newest Revocation of each of the agent, the edge and the registrar of a node
// that was deleted. It returns none for other objects, and if the installation has no certificates.
func revokedDaemons(ctx context.Context, registry *client.Client, d client.Deletion) ([]*corev1.Revocation, error) {
	if d.Key.Kind != "Node" || d.DryRun {
		return nil, nil
	}
	var all []*corev1.Revocation
	for _, role := range []identity.Role{identity.NodeAgent, identity.Edge, identity.Registrar} {
		newest, err := newestRevocation(ctx, registry, identity.ID{Role: role, Name: d.Key.Name})
		if err != nil {
			return nil, err
		}
		if newest != nil {
			all = append(all, newest)
		}
	}
	return all, nil
}

// newestRevocation returns the newest Revocation of an identity, or nil.
func newestRevocation(ctx context.Context, registry *client.Client, id identity.ID) (*corev1.Revocation, error) {
	found, err := client.ListOf[*corev1.Revocation](ctx, registry, client.Query{Fields: "spec.identity=" + id.Path()})
	if err != nil {
		return nil, err
	}
	var newest *corev1.Revocation
	for _, r := range found {
		if newest == nil || timeOf(r).After(timeOf(newest)) {
			newest = r
		}
	}
	return newest, nil
}

// recordDeletedDaemons records the Revocations of a deleted node's daemons in the folder of the authority,
// if that is on this machine, and prints the result.
func recordDeletedDaemons(out io.Writer, dir string, revoked []*corev1.Revocation) {
	if len(revoked) == 0 {
		return
	}
	var paths []string
	var errs []error
	for _, r := range revoked {
		paths = append(paths, r.GetSpec().GetIdentity())
		errs = append(errs, recordIn(dir, r))
	}
	_, _ = fmt.Fprintf(out, "The certificates of %s are revoked, so the node's agent and registrar cannot write any more, and its edge cannot read.\n", strings.Join(paths, " and "))
	if err := cmp.Or(errs...); err != nil {
		_, _ = fmt.Fprintf(out, "NATS still lets them in: run portolan certs revoke %s in the folder of the authority, for portolan certs nats-config (%v).\n", strings.Join(paths, " "), err)
	} else {
		_, _ = fmt.Fprintln(out, "NATS lets them in until its servers have the output of portolan certs nats-config and got nats-server --signal reload.")
	}
	_, _ = fmt.Fprintf(out, "A node that is set up again under this name needs new certificates: portolan certs issue %s --force\n", strings.Join(paths, " "))
}

func recordIn(dir string, r *corev1.Revocation) error {
	folder, err := certs.Open(dir)
	if err != nil {
		return err
	}
	return folder.RecordRevoked(certs.Revoked{Identity: r.GetSpec().GetIdentity(), Time: timeOf(r), Reason: r.GetSpec().GetReason()})
}
