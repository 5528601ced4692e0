package quota

import (
	"maps"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/registry/store"
)

var (
	usedDesc = prometheus.NewDesc("portolan_registry_quota_used",
		"Use of a limited resource, by namespace and resource.", []string{"namespace", "resource"}, nil)
	limitDesc = prometheus.NewDesc("portolan_registry_quota_limit",
		"Limit of a resource, by namespace and resource.", []string{"namespace", "resource"}, nil)
)

// ledgerMetrics has the use and the limit of each resource that is limited in a namespace. For limits of *
// it has only the namespaces that use the resource. Workloads and registrars have no series of
// their own, because there may be thousands.
type ledgerMetrics struct{ ledger *Ledger }

// Describe implements prometheus.Collector.
func (m *ledgerMetrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- usedDesc
	descs <- limitDesc
}

// Collect implements prometheus.Collector.
func (m *ledgerMetrics) Collect(metrics chan<- prometheus.Metric) {
	m.ledger.mu.Lock()
	defer m.ledger.mu.Unlock()
	accounts := map[store.Account]int{} // with their use
	for _, account := range m.ledger.limits.named() {
		accounts[account] = 0
	}
	maps.Copy(accounts, m.ledger.used)
	for account, used := range accounts {
		namespace, ok := strings.CutPrefix(account.Owner, namespaceOwner)
		if !ok {
			continue
		}
		limit, _ := m.ledger.limits.of(namespace, account.Resource)
		metrics <- prometheus.MustNewConstMetric(usedDesc, prometheus.GaugeValue, float64(used), namespace, account.Resource)
		metrics <- prometheus.MustNewConstMetric(limitDesc, prometheus.GaugeValue, float64(limit), namespace, account.Resource)
	}
}
