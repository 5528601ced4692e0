package edge

import (
	"fmt"
	"os"

	"portolan.dev/edge/internal/accesslog"
	"portolan.dev/edge/internal/agent"
	"portolan.dev/edge/internal/certs"
	"portolan.dev/edge/internal/health"
	"portolan.dev/edge/internal/serve"
)

// assemble builds the parts between the view and the sockets.
func (d *Daemon) assemble() (err error) {
	if d.certs, err = certs.New(certs.Options{Dir: d.cfg.CertsDir, Guard: d.host.Guard, Changed: func() { d.server.CertificatesChanged() }, Log: d.log}); err != nil {
		return err
	}
	if d.cfg.AccessLogDir != "" {
		if err := os.MkdirAll(d.cfg.AccessLogDir, 0o700); err != nil {
			return fmt.Errorf("access-log-dir: %w", err)
		}
		if d.logs, err = accesslog.New(accesslog.Options{Dir: d.cfg.AccessLogDir, Node: d.name, Log: d.log, Metrics: d.host.Metrics}); err != nil {
			return err
		}
	}
	d.local = agent.New(d.agent, func() { d.server.Changed() }, d.log)
	d.checks = health.NewChecker(d.log, d.host.Metrics)
	d.server = serve.New(serve.Options{
		View: d.view, Groups: d.cfg.groups(), Ranges: d.cfg.Ranges,
		Limits: serve.Limits{
			Handshake: d.cfg.HandshakeLimit, Connections: d.cfg.MaxConns, PerClient: d.cfg.MaxPerClient, Handshakes: d.cfg.MaxHandshakes, MaxHeaderSize: d.cfg.MaxHeader,
		},
		Certs: d.certs, Logs: d.logs, Checks: d.checks, Agent: d.local,
		Guard: d.host.Guard, Warn: d.events.WarnService, Metrics: d.host.Metrics, Log: d.log,
	})
	return nil
}
