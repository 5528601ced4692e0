package allocfake

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Stocked returns an error unless a registry with these metrics has this many addresses at hand.
func Stocked(metrics prometheus.Gatherer, want int) error {
	families, err := metrics.Gather()
	if err != nil {
		return err
	}
	total := 0
	for _, family := range families {
		if family.GetName() == "portolan_registry_reserve_values" {
			for _, m := range family.GetMetric() {
				total += int(m.GetGauge().GetValue())
			}
		}
	}
	if total != want {
		return fmt.Errorf("%d addresses are at hand, want %d", total, want)
	}
	return nil
}
