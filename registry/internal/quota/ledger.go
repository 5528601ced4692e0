package quota

import (
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// Ledger counts the objects of limited accounts. It follows the view with [Ledger.Observe] and
// [Ledger.Reset], and decides on writes with [Ledger.Usage], which the store calls inside a commit.
type Ledger struct {
	limits  accountLimits
	refused *prometheus.CounterVec

	mu    sync.Mutex
	state *view.State           // guarded by mu
	used  map[store.Account]int // guarded by mu; as of state
}

// NewLedger returns a ledger that has counted nothing yet.
func NewLedger(quotas []NamespaceQuota, owned OwnerLimits, metrics prometheus.Registerer) *Ledger {
	l := &Ledger{
		limits: newAccountLimits(quotas, owned), state: view.StateAt(0), used: map[store.Account]int{},
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_registry_quota_refused_total",
			Help: "Writes that were refused because of a quota, by limit: namespace-quotas, max-pods-per-workload, max-pods-per-registrar or max-services-per-registrar.",
		}, []string{"limit"}),
	}
	metrics.MustRegister(l.refused, &ledgerMetrics{l})
	return l
}

// Reset counts the objects of a state.
func (l *Ledger) Reset(state *view.State) {
	used := map[store.Account]int{}
	for _, kind := range l.limits.countedKinds() {
		for item := range state.All(kind, "") {
			l.limits.charge(item.Object, func(account store.Account, amount, _ int) { used[account] += amount })
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state, l.used = state, used
}

// Observe counts the changes that lead to a state.
func (l *Ledger) Observe(state *view.State, changes []*view.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = state
	for _, change := range changes {
		if change.Old != nil {
			l.limits.charge(change.Old.Object, func(account store.Account, amount, _ int) { l.add(account, -amount) })
		}
		if change.New != nil {
			l.limits.charge(change.New.Object, func(account store.Account, amount, _ int) { l.add(account, amount) })
		}
	}
}

// add changes an account. The caller holds mu.
func (l *Ledger) add(account store.Account, amount int) {
	if l.used[account] += amount; l.used[account] == 0 {
		delete(l.used, account)
	}
}

// Charges returns the amounts that replacing old by updated adds to the limited accounts. old is nil for a
// new object, updated for a deletion.
func (l *Ledger) Charges(updated, old object.Object) []store.Charge {
	var charges []store.Charge
	add := func(account store.Account, amount, limit int) {
		for i := range charges {
			if charges[i].Account == account {
				charges[i].Amount += amount
				return
			}
		}
		charges = append(charges, store.Charge{Account: account, Amount: amount, Limit: limit})
	}
	if updated != nil {
		l.limits.charge(updated, add)
	}
	if old != nil {
		l.limits.charge(old, func(account store.Account, amount, limit int) { add(account, -amount, limit) })
	}
	kept := charges[:0]
	for _, charge := range charges {
		if charge.Amount != 0 {
			kept = append(kept, charge)
		}
	}
	return kept
}

// Check returns an error if charges exceed a limit as far as the view knows. It spares the
// allocations for a write that the store would refuse, and decides on dry runs.
func (l *Ledger) Check(charges []store.Charge) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range charges {
		if used := l.used[c.Account]; c.Amount > 0 && used+c.Amount > c.Limit {
			return l.refusal(&store.QuotaError{Charge: c, Used: used})
		}
	}
	return nil
}

// Explain returns the error for the client if err is a refusal by the store because of a quota, and
// otherwise err.
func (l *Ledger) Explain(err error) error {
	var over *store.QuotaError
	if !errors.As(err, &over) {
		return err
	}
	return l.refusal(over)
}

func (l *Ledger) refusal(over *store.QuotaError) error {
	limit := l.limits.flag(over.Charge.Account)
	l.refused.WithLabelValues(limit).Inc()
	return apierr.Exhausted(limit, fmt.Sprintf("%s: delete some first, or raise the registry's %s", over, limit))
}

// errBehind is returned if the log does not lead from the view's state to the head.
var errBehind = fmt.Errorf("%w: the view is too far behind to decide on a quota", store.ErrUnavailable)

// Usage implements [store.UsageFunc]. To the counts of the view's state it adds the changes that
// were committed after that state.
func (l *Ledger) Usage(head store.Head, accounts []store.Account, since func(after uint64) ([]store.Record, error)) (map[store.Account]int, error) {
	state, used := l.snapshot(accounts)
	switch {
	case head.Epoch != state.Epoch() || head.Revision < state.Revision():
		return nil, errBehind
	case head.Revision == state.Revision():
		return used, nil
	}
	records, err := since(state.Revision())
	if err != nil {
		return nil, err
	}
	if n := len(records); n == 0 || records[0].Revision != state.Revision()+1 || records[n-1].Revision != head.Revision {
		return nil, errBehind
	}
	return used, l.addRecords(used, state, records)
}

// snapshot returns the view's state and the use of the given accounts in it.
func (l *Ledger) snapshot(accounts []store.Account) (*view.State, map[store.Account]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	used := make(map[store.Account]int, len(accounts))
	for _, account := range accounts {
		used[account] = l.used[account]
	}
	return l.state, used
}

// addRecords adds the changes after a state to the accounts in used.
func (l *Ledger) addRecords(used map[store.Account]int, state *view.State, records []store.Record) error {
	newer := map[object.Key]object.Object{} // objects that changed after the state; nil: deleted
	count := func(o object.Object, sign int) {
		l.limits.charge(o, func(account store.Account, amount, _ int) {
			if _, wanted := used[account]; wanted {
				used[account] += sign * amount
			}
		})
	}
	for i := range records {
		key := records[i].Key
		if !l.limits.concern(key) {
			continue
		}
		old, changed := newer[key]
		if item := state.Get(key); !changed && item != nil {
			old = item.Object
		}
		if old != nil {
			count(old, -1)
		}
		newer[key] = nil
		if records[i].Type == registryv1.ChangeType_CHANGE_TYPE_DELETE {
			continue
		}
		o, err := records[i].Object()
		if err != nil {
			return err
		}
		newer[key] = o
		count(o, 1)
	}
	return nil
}
