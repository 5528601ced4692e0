package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/obs"
)

// Common holds the settings that every daemon has. A daemon's configuration embeds it and sets the
// default addresses in the field's tag:
//
//	daemon.Common `default:"addr=127.0.0.1:7400 http-addr=127.0.0.1:7500"`
//
// A configuration with its own Validate must call Validate of Common.
type Common struct {
	Addr          string     `flag:"addr" default:"127.0.0.1:0" usage:"host:port of the gRPC API"`
	HTTPAddr      string     `flag:"http-addr" default:"127.0.0.1:0" usage:"host:port of metrics and health checks"`
	DebugAddr     string     `flag:"debug-addr" usage:"unix:PATH or loopback host:port of profiles and the log level; empty: none"`
	LogLevel      slog.Level `flag:"log-level" default:"info" usage:"debug, info, warn or error"`
	LogFormat     obs.Format `flag:"log-format" default:"auto" usage:"json, text, or auto: text on a terminal, otherwise json"`
	TraceEndpoint string     `flag:"trace-endpoint" usage:"host:port of an OpenTelemetry collector (OTLP over gRPC); empty: OTEL_EXPORTER_OTLP_ENDPOINT, or no traces"`
	NATSURL       string     `flag:"nats-url" default:"nats://127.0.0.1:4222" usage:"NATS servers, comma separated"`
	NATSPrefix    string     `flag:"nats-prefix" default:"portolan" usage:"first word of all NATS subjects"`
	TLS
	Audit
	TLSRenewed string `flag:"tls-renewed" usage:"folder for the renewed certificate and its key, which only the daemon reads; empty: renewed below the folder of its data, or in memory only if there is none"`
	Insecure   bool   `flag:"insecure" default:"false" usage:"allow listening without TLS on an address that other machines reach"`
}

// CommonConfig returns c. With it Main reaches the common settings of any configuration that embeds
// Common.
func (c *Common) CommonConfig() *Common { return c }

// Identity opens the certificate of these settings, or the renewed one in TLSRenewed if that was
// issued later. It returns nil if none is configured. It sets the Files and the Store of options.
func (c *Common) Identity(options identity.Options) (*identity.Source, error) {
	if c.TLSRenewed != "" {
		options.Store = identity.Folder(c.TLSRenewed)
	}
	return c.TLS.Identity(options)
}

// Validate returns an error that lists all invalid settings. Without TLS the addresses of gRPC and
// HTTP must be loopback addresses, unless Insecure is set. The debug address must be one in any case.
func (c *Common) Validate() error {
	errs := []error{c.TLS.Validate(), c.Audit.Validate(), checkDebugAddr(c.DebugAddr)}
	for _, one := range []struct{ flag, addr, may string }{{"addr", c.Addr, "do"}, {"http-addr", c.HTTPAddr, "read"}} {
		if c.TLSCert == "" && !c.Insecure && !isLoopback(one.addr) {
			errs = append(errs, fmt.Errorf("%s: other machines reach %s, and without TLS they may %s everything: give tls-cert, tls-key and tls-ca "+
				"(portolan certs init makes them), or listen on 127.0.0.1, or accept it by insecure", one.flag, one.addr, one.may))
		}
	}
	return errors.Join(errs...)
}

// isLoopback reports whether an address can be reached only from this machine. It reports false for
// every host name except localhost, because other names can resolve to any address.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || host == "localhost" {
		return true // the error of listening is more precise
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
