package traffic

import (
	"cmp"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

// Register registers the metrics of a data plane that counts traffic or dropped packets. Each of
// them has series for at most the given number of service ports; 0: nothing is registered.
func Register(reg prometheus.Registerer, plane any, maxPorts int, log *slog.Logger) {
	if maxPorts == 0 {
		return
	}
	registerTraffic(reg, plane, maxPorts, log)
	registerDrops(reg, plane, maxPorts, log)
}

// servicePort is the unit of the sums: all addresses of a service's port.
type servicePort struct {
	service  object.Name
	port     string
	protocol plan.Protocol
}

func (p servicePort) compare(o servicePort) int {
	return cmp.Or(p.service.Compare(o.service), cmp.Compare(p.port, o.port), cmp.Compare(p.protocol, o.protocol))
}
