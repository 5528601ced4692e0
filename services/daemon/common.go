package daemon

import (
	"log/slog"

	"portolan.dev/services/kit/obs"
)

// Common are the settings that every daemon has. Embed it, and give the
// addresses their defaults there:
//
//	daemon.Common `default:"addr=127.0.0.1:7400 http-addr=127.0.0.1:7500"`
type Common struct {
	Addr       string     `flag:"addr" default:"127.0.0.1:0" usage:"host:port of the gRPC API"`
	HTTPAddr   string     `flag:"http-addr" default:"127.0.0.1:0" usage:"host:port of metrics, health checks and pprof"`
	LogLevel   slog.Level `flag:"log-level" default:"info" usage:"debug, info, warn or error"`
	LogFormat  obs.Format `flag:"log-format" default:"auto" usage:"json, text, or auto: text on a terminal, otherwise json"`
	NATSURL    string     `flag:"nats-url" default:"nats://127.0.0.1:4222" usage:"NATS servers, comma separated"`
	NATSPrefix string     `flag:"nats-prefix" default:"portolan" usage:"first word of all NATS subjects"`
}

// CommonConfig gives Main the settings of any configuration that embeds Common.
func (c *Common) CommonConfig() *Common { return c }
