package allocator

import (
	"github.com/prometheus/client_golang/prometheus"

	corev1 "portolan.dev/api/core/v1"
)

// reserveMetrics are the metrics of a reserve.
type reserveMetrics struct {
	taken, misses prometheus.Counter
}

func newReserveMetrics(s *stock, metrics prometheus.Registerer) reserveMetrics {
	m := reserveMetrics{
		taken: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "portolan_registry_reserve_taken_total", Help: "Addresses that services got from the reserve.",
		}),
		misses: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "portolan_registry_reserve_misses_total", Help: "Services whose addresses were asked for because the reserve did not have them.",
		}),
	}
	for family, name := range map[corev1.IPFamily]string{corev1.IPFamily_IP_FAMILY_IPV4: "IPv4", corev1.IPFamily_IP_FAMILY_IPV6: "IPv6"} {
		metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "portolan_registry_reserve_values", Help: "Addresses at hand for new services, by family.", ConstLabels: prometheus.Labels{"family": name},
		}, func() float64 { return float64(s.atHand()[family]) }))
	}
	metrics.MustRegister(m.taken, m.misses, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_registry_reserve_settling", Help: "Addresses that services got from the reserve and that the allocator was not told of yet.",
	}, func() float64 { return float64(s.unsettled()) }))
	return m
}
