package certs

import (
	"cmp"
	"fmt"
	"net"
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
	// Nodes are names of nodes. Their agents, edges and registrars may connect, besides the identities
	// with a certificate in the folder.
	Nodes []string
	// Cluster is the cluster of the server. Without routes the server is in none.
	Cluster NATSCluster
}

// NATSCluster describes the cluster of a NATS server.
type NATSCluster struct {
	// Name is the name of the cluster. Default: "portolan".
	Name string `yaml:"name"`
	// Listen is the address for the routes of other servers. Default: "0.0.0.0:6222".
	Listen string `yaml:"listen"`
	// Routes are the host:port of all servers of the cluster, as Listen of each can be reached.
	Routes []string `yaml:"routes"`
}

// NATSConfig returns the part of a nats-server's configuration that lets in Portolan's roles only,
// each with its own subjects, and that lets only servers of the cluster open a route. The server
// uses the URI SAN of a certificate as the user.
//
// A route needs a certificate of the authority for routes, which names the role natsroute. NATS can
// also be told the keys of the servers (pinned_certs). Every renewal of a certificate would then
// need a reload of all servers before the renewed one starts, so the name decides, which stays.
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
	if err := f.writeCluster(&out, options); err != nil {
		return "", err
	}
	return out.String(), nil
}

// writeCluster writes the block of the cluster, if there is one.
func (f *Folder) writeCluster(out *strings.Builder, options NATSOptions) error {
	cluster := options.Cluster
	if len(cluster.Routes) == 0 {
		return nil
	}
	if f.routes == nil {
		return fmt.Errorf("%s has no %s: portolan certs issue natsroute --host HOST makes it, with a certificate for the routes of the servers", f.dir, routesCACert)
	}
	routes := make([]string, len(cluster.Routes))
	for i, route := range cluster.Routes {
		if _, _, err := net.SplitHostPort(route); err != nil {
			return fmt.Errorf("route %q: want HOST:PORT", route)
		}
		routes[i] = fmt.Sprintf("%q", "nats://"+route)
	}
	fmt.Fprintf(out, `cluster {
  name: %q
  listen: %q
  routes: [%s]
  authorization { user: %q }
  tls {
    cert_file: %q
    key_file: %q
    ca_file: %q
    verify_and_map: true
  }
}
`, cmp.Or(cluster.Name, "portolan"), cmp.Or(cluster.Listen, "0.0.0.0:6222"), strings.Join(routes, ", "),
		identity.ID{TrustDomain: f.TrustDomain(), Role: identity.NATSRoute}, path.Join(options.Path, "natsroute.crt"), path.Join(options.Path, "natsroute.key"),
		path.Join(options.Path, routesCACert))
	return nil
}

// UsesNATS reports whether an identity connects to NATS.
func UsesNATS(id identity.ID) bool { return slices.Contains(access.RolesUsingNATS(), id.Role) }

// natsUsers returns the identities that may connect: those that were not revoked.
func (f *Folder) natsUsers(nodes []string) ([]identity.ID, error) {
	all, err := f.List()
	if err != nil {
		return nil, err
	}
	var users []identity.ID
	for _, role := range access.RolesUsingNATS() {
		if !role.OfNode() {
			users = append(users, identity.ID{TrustDomain: f.TrustDomain(), Role: role})
			continue
		}
		ofNodes, err := f.idsOf(role, nodes, all)
		if err != nil {
			return nil, err
		}
		users = append(users, ofNodes...)
	}
	return f.withoutRevoked(users)
}

// idsOf returns the identities of a role on the nodes, and the identities of the role that have one of
// the certificates, ordered by path.
func (f *Folder) idsOf(role identity.Role, nodes []string, all []Certificate) ([]identity.ID, error) {
	var ids []identity.ID
	for _, node := range nodes {
		id := identity.ID{TrustDomain: f.TrustDomain(), Role: role, Name: node}
		if err := id.Validate(); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	for _, one := range all {
		if !strings.HasPrefix(one.Name, string(role)+"/") {
			continue
		}
		id, err := identity.ParsePath(f.TrustDomain(), one.Name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b identity.ID) int { return strings.Compare(a.Path(), b.Path()) })
	return slices.Compact(ids), nil
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
