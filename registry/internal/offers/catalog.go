package offers

import (
	"sync"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/view"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Catalog has the reports that count at present. Its methods are safe for concurrent use.
type Catalog struct {
	mu      sync.Mutex
	reports map[object.Key]report // guarded by mu
}

// report is one Lease with offers.
type report struct {
	offers spec.BalancerOffers
	until  time.Time
}

// NewCatalog returns a catalog in which every class is unknown.
func NewCatalog() *Catalog { return &Catalog{reports: map[object.Key]report{}} }

// Observe applies changes of the view.
func (c *Catalog) Observe(changes []*view.Change) {
	for _, change := range changes {
		if lease, ok := change.Last.Object.(*corev1.Lease); ok && spec.IsBalancerLease(lease) {
			c.apply(change, lease)
		}
	}
}

func (c *Catalog) apply(change *view.Change, lease *corev1.Lease) {
	offers := spec.BalancerOffersOf(lease)
	c.mu.Lock()
	defer c.mu.Unlock()
	if change.New == nil || len(offers) == 0 {
		delete(c.reports, change.Last.Key)
		return
	}
	duration := time.Duration(lease.GetSpec().GetLeaseDurationSeconds()) * time.Second
	c.reports[change.Last.Key] = report{offers: offers, until: time.Now().Add(duration)}
}

// Forget makes every class unknown. It is called when the view was read anew, because the view then does not know
// when the Leases have changed.
func (c *Catalog) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.reports)
}

// Of returns the capabilities of a class, and whether they are known. If several lbctls report the class, a service
// may have what one of them offers.
func (c *Catalog) Of(class string) (offer spec.BalancerOffer, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, report := range c.reports {
		if one, ok := report.offers[class]; ok && time.Now().Before(report.until) {
			offer, known = offer.Join(one), true
		}
	}
	return offer, known
}
