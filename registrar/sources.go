package registrar

import (
	"portolan.dev/registrar/internal/docker"
	"portolan.dev/registrar/internal/systemd"
	"portolan.dev/registrar/source"
)

// newSources returns the configured sources.
func (d *Daemon) newSources() []source.Source {
	var all []source.Source
	if d.cfg.Docker {
		all = append(all, docker.New(docker.Options{
			Socket: d.cfg.DockerSocket, NodeAddresses: d.cfg.NodeAddresses, ComposeNames: d.cfg.DockerComposeNames, Network: d.cfg.DockerNetwork, NoServiceVariables: !d.cfg.DockerVariables, Relist: d.cfg.Relist, Log: d.log, Metrics: d.host.Metrics,
		}))
	}
	if d.cfg.Systemd {
		all = append(all, systemd.New(systemd.Options{Address: d.cfg.SystemdBus, Root: d.cfg.SystemdRoot, Relist: d.cfg.Relist, Log: d.log, Metrics: d.host.Metrics}))
	}
	return all
}
