package certs

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"portolan.dev/services/access"
	"portolan.dev/services/kit/identity"
)

// NATSOptions are the settings of a NATS configuration.
type NATSOptions struct {
	Prefix string // of all subjects
	Path   string // folder of the server's certificate
	// Nodes may send heartbeats, besides the nodes with a certificate in the folder.
	Nodes []string
}

// NATSConfig returns the part of a nats-server's configuration that lets in Portolan's roles only,
// each with its own subjects. The server uses the URI SAN of a certificate as the user.
func (f *Folder) NATSConfig(options NATSOptions) (string, error) {
	users, err := f.natsUsers(options.Nodes)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, `# Written by portolan certs nats-config: who may connect to NATS, and which subjects are theirs.
# After a new node: write it anew, and tell the servers by nats-server --signal reload.
tls {
  cert_file: %q
  key_file: %q
  ca_file: %q
  verify_and_map: true
}
authorization {
  users: [
`, path.Join(options.Path, "nats.crt"), path.Join(options.Path, "nats.key"), path.Join(options.Path, caCert))
	for _, id := range users {
		permissions, err := access.SubjectsOf(options.Prefix, id)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "    { user: %q, permissions: { publish: %s, subscribe: %s } }\n", id, allow(permissions.Publish), allow(permissions.Subscribe))
	}
	out.WriteString("  ]\n}\n")
	return out.String(), nil
}

// natsUsers returns the identities that may connect.
func (f *Folder) natsUsers(nodes []string) ([]identity.ID, error) {
	all, err := f.List()
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if node, ok := strings.CutPrefix(one.Name, string(identity.NodeAgent)+"/"); ok {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	var users []identity.ID
	for _, role := range access.RolesUsingNATS() {
		if role != identity.NodeAgent {
			users = append(users, identity.ID{TrustDomain: f.TrustDomain(), Role: role})
			continue
		}
		for _, node := range slices.Compact(nodes) {
			id := identity.ID{TrustDomain: f.TrustDomain(), Role: role, Name: node}
			if err := id.Validate(); err != nil {
				return nil, err
			}
			users = append(users, id)
		}
	}
	return users, nil
}

// allow returns permissions for subjects in NATS's syntax.
func allow(subjects []string) string {
	if len(subjects) == 0 {
		return `{ deny: ">" }`
	}
	quoted := make([]string, len(subjects))
	for i, subject := range subjects {
		quoted[i] = fmt.Sprintf("%q", subject)
	}
	return "{ allow: [" + strings.Join(quoted, ", ") + "] }"
}
