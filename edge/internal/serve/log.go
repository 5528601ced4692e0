package serve

import (
	"portolan.dev/services/balancer"

	"portolan.dev/edge/internal/accesslog"
)

// setLog opens the access log that the service asks for. It closes a log with other settings, or a log for which
// the service no longer asks.
func (p *port) setLog() {
	s := p.plan.Settings.AccessLog
	if !s.Enabled || p.server.opts.Logs == nil {
		p.closeLog()
		p.logProblem = ""
		return
	}
	target := accesslog.Target{
		Namespace: p.plan.Service.Namespace, Service: p.plan.Service.Name, Directory: s.Directory, Prefix: s.Prefix,
		Interval: s.Interval, Format: formats[s.Format], Tags: p.plan.Settings.Tags,
	}
	if p.log.Load() != nil && target.Equal(p.target) {
		return
	}
	p.closeLog()
	p.logProblem = ""
	log, err := p.server.opts.Logs.Open(target)
	if err != nil {
		p.logProblem = err.Error()
		p.server.warn(p.server.services[p.plan.Service], problem{reasonSettings, p.logProblem})
		return
	}
	p.target = target
	p.log.Store(log)
}

func (p *port) closeLog() {
	if log := p.log.Swap(nil); log != nil {
		log.Close()
	}
}

var formats = map[balancer.LogFormat]accesslog.Format{balancer.LogELB: accesslog.ELB, balancer.LogJSON: accesslog.JSON}
