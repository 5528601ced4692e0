package nodeagent

import (
	"fmt"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"

	"portolan.dev/nodeagent/internal/announce"
	"portolan.dev/nodeagent/internal/bgp"
	"portolan.dev/nodeagent/internal/events"
	"portolan.dev/nodeagent/internal/healthcheck"
	"portolan.dev/nodeagent/internal/localproxy"
	"portolan.dev/nodeagent/internal/nodestatus"
	"portolan.dev/nodeagent/internal/probe"
	"portolan.dev/nodeagent/internal/proxymode"
	"portolan.dev/nodeagent/internal/script"
	"portolan.dev/nodeagent/internal/syncloop"
	"portolan.dev/nodeagent/internal/traffic"
	"portolan.dev/nodeagent/internal/view"
	"portolan.dev/services/changes"
	eventlog "portolan.dev/services/events"
	"portolan.dev/services/object"
)

// openPlane opens the data plane of the configured mode, or of the next best one.
func (d *Daemon) openPlane() error {
	if d.claim = d.machine.Claim(); d.claim == nil {
		d.log.Warn("another agent runs on this machine: its state in the kernel is left alone")
	}
	opened, err := proxymode.Open(d.cfg.proxyMode(d.machine, d.claim == nil, d.log, d.host.Metrics))
	d.plane, d.fallback, d.left = opened.Plane, opened.Fallback, opened.Left
	return err
}

// removeLeft is the operation that has failed if an earlier agent's state may still capture packets.
const removeLeft = "remove what an earlier agent has left in the kernel"

// assemble builds the parts of the agent around its data plane.
func (d *Daemon) assemble() error {
	d.view = view.New(d.name, d.host.Guard)
	d.events = eventlog.NewRecorder("nodeagent", d.name, registryv1.NewEventServiceClient(d.registry), d.log)
	d.events.Watch(d.host.Guard)
	if d.fallback != "" {
		d.events.WarnNode(events.ProxyModeFallback, d.fallback)
	}
	traffic.Register(d.host.Metrics, d.plane, d.cfg.TrafficMetrics, d.log)
	d.checks = healthcheck.New(healthcheck.Options{
		Healthy: func() bool { return d.syncer.Healthy() },
		Report: func(service object.Name, port uint16, err error) {
			d.syncer.ReportHealthCheckPort(service, port, err)
		},
	})
	stays := d.plane.Name() != proxymode.Userspace
	d.advertiser = bgp.New(bgp.Options{
		Config: d.cfg.bgp(), Node: d.name, Open: d.machine.OpenSpeaker, Address: d.firstIPv4, Eligible: d.takesTraffic, Stays: stays,
		Warn: func(err error) { d.host.Health.Warn("bgp", err) }, Metrics: d.host.Metrics, Log: d.log,
	})
	d.syncer = syncloop.New(syncloop.Options{
		View: d.view, Plane: d.plane, Listens: !stays,
		Checks: d.checks, Routes: d.advertiser, Events: d.events, Guard: d.host.Guard, Metrics: d.host.Metrics, Log: d.log,
		Programmed: func() {
			d.host.Health.Set(programmedCheck, nil)
			d.advertiser.Synced()
		},
	})
	if d.left != nil {
		d.syncer.ReportNodeFailure(removeLeft, fmt.Errorf("%w; stop the agent, and run as root: nodeagent cleanup", d.left), events.FailedToProgram)
	}
	scripts, err := script.Open(d.cfg.CheckDir, d.cfg.CheckUser)
	if err != nil {
		return err
	}
	d.prober = probe.New(probe.Options{
		Log: d.log, Metrics: d.host.Metrics, Guard: d.host.Guard, Scripts: scripts, Refused: d.warnPod, NodeAddress: d.mainAddress,
		Write: probe.RegistryWriter(registryv1.NewPodServiceClient(d.registry)),
	})
	d.node = nodestatus.NewRegistration(nodestatus.RegistrationOptions{
		Name: d.name, Labels: d.cfg.labels(), ProxyMode: d.plane.Name(),
		AdvertiseAddr: d.cfg.AdvertiseAddr, Listening: d.lis.Addr(), Connected: d.nats.IsConnected,
		Client: registryv1.NewNodeServiceClient(d.registry), Log: d.log,
	})
	d.health = healthcheck.NewNodeServer(healthcheck.NodeOptions{
		ProxyMode: d.plane.Name(), Metrics: d.host.Metrics,
		Healthy: d.syncer.Healthy, Updated: d.syncer.LastSync, Draining: d.draining.Load, Node: d.view.Self,
	})
	d.proxies = localproxy.New(localproxy.Options{
		Node: d.name, Open: d.machine.LocalRoutes, Kernel: stays, Addresses: d.view.EdgeAddresses, Eligible: d.takesTraffic,
		Changed: d.proxyChanged, Metrics: d.host.Metrics, Log: d.log,
	})
	d.announcer = announce.New(announce.Options{
		Node: d.name, Interfaces: d.cfg.AnnounceInterfaces, Controllers: d.lbctl, Machine: d.machine,
		Ready:    func() bool { return d.syncer.Healthy() && !d.syncer.LastSync().IsZero() },
		Draining: d.draining.Load, Stays: stays, Proxy: d.proxies, Metrics: d.host.Metrics, Log: d.log,
	})
	if err := d.follow(); err != nil {
		return err
	}
	d.registerMetrics()
	return nil
}

// warnPod writes an event about a pod with a refused exec check.
func (d *Daemon) warnPod(key object.Key, reason error) {
	about := &corev1.ObjectReference{Kind: key.Kind, ApiVersion: "v1", Namespace: key.Namespace, Name: key.Name}
	if pod := d.prober.Pod(key); pod != nil {
		about.Uid = pod.GetMetadata().GetUid()
	}
	d.events.Warn(about, key.Namespace, events.CheckRefused, reason.Error())
}

// follow builds the follower of the registry's changes.
func (d *Daemon) follow() (err error) {
	d.follower, err = changes.NewFollower(changes.FollowerConfig{
		Registry: d.registry, NATS: d.nats, Prefix: d.cfg.NATSPrefix, Kinds: view.Kinds,
		Node: d.name, Keep: d.view.Accepts, Trim: d.view.Trim, Guard: d.host.Guard, Log: d.log, Metrics: d.host.Metrics, Health: d.host.Health, Tracer: d.host.Tracer, Revocations: d.host.Identity.DenyList(), Apply: d.apply,
	})
	return err
}
