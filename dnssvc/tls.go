package dnssvc

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/identity"
)

// listenTLS listens for DNS over TLS.
func (d *Daemon) listenTLS(host app.Host) error {
	if len(d.cfg.ListenTLS) == 0 {
		return nil
	}
	settings, expires, err := d.certificate(host.Identity)
	if err != nil {
		return fmt.Errorf("%w: %w", config.ErrInvalid, err)
	}
	for _, addr := range d.cfg.ListenTLS {
		if err := d.dns.ListenTLS(addr, settings); err != nil {
			return daemon.ListenError("listen-tls", err)
		}
	}
	host.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_dnssvc_tls_certificate_expiry_timestamp_seconds",
		Help: "When the certificate for DNS over TLS expires, in seconds since the epoch; absent without -listen-tls.",
	}, func() float64 { return float64(expires().Unix()) }))
	return nil
}

// certificate returns the TLS settings for DNS clients and a function that returns when their
// certificate expires. It prefers -listen-tls-cert. Without that flag it uses the daemon's own
// certificate, if this has a host name or an address, because DNS clients do not check roles.
func (d *Daemon) certificate(own *identity.Source) (*tls.Config, func() time.Time, error) {
	if d.cfg.ListenTLSCert == "" {
		// Only a program other than Main gives the daemon no identity.
		if own == nil {
			return nil, nil, fmt.Errorf("listen-tls: there is no certificate: give listen-tls-cert and listen-tls-key")
		}
		settings, err := own.ServerTLS()
		return settings, own.Expires, err
	}
	var err error
	if d.public, err = identity.OpenPublic(identity.PublicOptions{
		Cert: d.cfg.ListenTLSCert, Key: d.cfg.ListenTLSKey, Flags: "listen-tls", Log: d.log,
	}); err != nil {
		return nil, nil, err
	}
	return d.public.ServerTLS(), d.public.Expires, nil
}

// watchCertificate reloads the certificate for DNS clients when its files change. The daemon's own
// certificate is reloaded by the host, for all servers at once.
func (d *Daemon) watchCertificate(ctx context.Context) error {
	if d.public == nil {
		return nil
	}
	return d.public.Run(ctx)
}
