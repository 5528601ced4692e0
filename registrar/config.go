package registrar

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"portolan.dev/services/daemon"
	"portolan.dev/services/spec"
)

// Config is the configuration of the daemon.
type Config struct {
	daemon.Common `default:"addr=127.0.0.1:7408 http-addr=127.0.0.1:7508"`

	Registry string `flag:"registry" default:"127.0.0.1:7400" usage:"host:port of the registry's gRPC API; several, comma separated"`
	DataDir  string `flag:"data-dir" usage:"folder of the renewed certificate; empty: it is renewed in memory"`

	NodeName       string       `flag:"node-name" usage:"name of the node; empty: that of the certificate, or the host name"`
	NodeAddresses  []netip.Addr `flag:"node-addresses" usage:"addresses of the node, its main one first, for backends in the host's network and at published ports; empty: those that the node's agent reports"`
	Namespace      string       `flag:"namespace" default:"default" usage:"namespace of workloads that name none"`
	CreateServices bool         `flag:"create-services" default:"true" usage:"make the services and namespaces that workloads name and that do not exist"`

	Docker             bool          `flag:"docker" default:"false" usage:"register containers with the label portolan.service"`
	DockerSocket       string        `flag:"docker-socket" default:"/var/run/docker.sock" usage:"path of the engine's socket"`
	DockerComposeNames bool          `flag:"docker-compose-names" default:"false" usage:"register all containers of compose projects: the service has the name that it has in the compose file, and the namespace that of the project, unless labels say something else"`
	DockerVariables    bool          `flag:"docker-service-variables" default:"true" usage:"read registrator's variables, such as SERVICE_NAME, of containers without labels of Portolan"`
	DockerNetwork      string        `flag:"docker-network" usage:"network whose address counts for containers that are in several and name none; empty: such containers are not registered"`
	Systemd            bool          `flag:"systemd" default:"false" usage:"register units with the key X-Portolan-Service"`
	SystemdBus         string        `flag:"systemd-bus" usage:"D-Bus address of systemd, as unix:path=PATH; empty: the system bus"`
	SystemdRoot        string        `flag:"systemd-root" default:"/" usage:"folder in which the unit files of the node are, for a registrar in a container"`
	Relist             time.Duration `flag:"relist" default:"5m" usage:"interval at which a source is read completely, even if it reports no change; at least 1s"`

	Dir          string        `flag:"dir" usage:"folder whose manifests are applied when they change; empty: none"`
	DirSelector  string        `flag:"dir-selector" usage:"selector that all manifests of the folder match, such as app=shop; objects that match and are in no manifest any more are deleted; empty: nothing is deleted"`
	DirNamespace string        `flag:"dir-namespace" default:"default" usage:"namespace of manifests that name none"`
	DirInterval  time.Duration `flag:"dir-interval" default:"1m" usage:"interval at which the folder is read whether it has changed or not; at least 1s"`
	DirCert      string        `flag:"dir-cert" usage:"certificate (PEM) of an operator, of all namespaces or of one, with which the manifests are applied; needed with tls-cert"`
	DirKey       string        `flag:"dir-key" usage:"private key (PEM) of dir-cert"`
	DirCA        string        `flag:"dir-ca" usage:"trusted certificate authorities (PEM) of dir-cert; empty: tls-ca"`
	Once         bool          `flag:"once" default:"false" usage:"apply the folder once and exit, with 0 if everything is as the manifests say; nothing else is registered"`
}

// DataFolder returns the folder of the daemon's data, or "" if none is configured.
func (c *Config) DataFolder() string { return c.DataDir }

// Validate returns all errors of the configuration, joined.
func (c *Config) Validate() error {
	errs := []error{c.Common.Validate()}
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(spec.DNSLabel(c.Namespace) != "", "namespace: %q %s", c.Namespace, spec.DNSLabel(c.Namespace))
	bad(spec.DNSLabel(c.DirNamespace) != "", "dir-namespace: %q %s", c.DirNamespace, spec.DNSLabel(c.DirNamespace))
	bad(c.Relist < time.Second, "relist: must be at least 1s")
	bad(c.DirInterval < time.Second, "dir-interval: must be at least 1s")
	bad(c.Once && c.Dir == "", "once: needs dir, the folder to apply")
	bad((c.DirCert == "") != (c.DirKey == ""), "dir-cert and dir-key: give both, or neither")
	bad(c.DirCert != "" && c.DirCA == "" && c.TLSCA == "", "dir-ca: dir-cert needs the certificate authorities")
	bad(c.Dir != "" && c.TLSCert != "" && c.DirCert == "",
		"dir-cert and dir-key: a registrar may write its own pods only, so the folder needs the certificate of an operator: portolan certs issue operator or operator/NAMESPACE")
	_, err := spec.ParseSelector(c.DirSelector)
	bad(err != nil, "dir-selector: %v", err)
	return errors.Join(errs...)
}
