package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

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
	HTTPAddr      string     `flag:"http-addr" default:"127.0.0.1:0" usage:"host:port of metrics, health checks and pprof"`
	LogLevel      slog.Level `flag:"log-level" default:"info" usage:"debug, info, warn or error"`
	LogFormat     obs.Format `flag:"log-format" default:"auto" usage:"json, text, or auto: text on a terminal, otherwise json"`
	TraceEndpoint string     `flag:"trace-endpoint" usage:"host:port of an OpenTelemetry collector (OTLP over gRPC); empty: OTEL_EXPORTER_OTLP_ENDPOINT, or no traces"`
	NATSURL       string     `flag:"nats-url" default:"nats://127.0.0.1:4222" usage:"NATS servers, comma separated"`
	NATSPrefix    string     `flag:"nats-prefix" default:"portolan" usage:"first word of all NATS subjects"`
	TLS
	Insecure bool `flag:"insecure" default:"false" usage:"allow listening without TLS on an address that other machines reach"`
}

// CommonConfig returns c. With it Main reaches the common settings of any configuration that embeds
// Common.
func (c *Common) CommonConfig() *Common { return c }

// Validate returns an error that lists all invalid settings. Without TLS the gRPC address must be a
// loopback address, unless Insecure is set.
func (c *Common) Validate() error {
	err := c.TLS.Validate()
	if c.TLSCert == "" && !c.Insecure && !isLoopback(c.Addr) {
		err = errors.Join(err, fmt.Errorf("addr: other machines reach %s, and without TLS they may do everything: give tls-cert, tls-key and tls-ca "+
			"(portolan certs init makes them), or listen on 127.0.0.1, or accept it by insecure", c.Addr))
	}
	return err
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
