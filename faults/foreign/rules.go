package foreign

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/nftables"

	promise "portolan.dev/faults/check"
	"portolan.dev/faults/history"
	"portolan.dev/faults/lab"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/portolan/e2e/churn/check"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/object"
)

// foreignTables are the foreign tables. They match no packets of the tests.
const foreignTables = `
table inet portolan {
	set portolan-nodes { type ipv4_addr; flags interval; elements = { 192.0.2.0/28 }; }
	chain forward { type filter hook forward priority 10; policy accept; ip saddr @portolan-nodes counter drop; }
}
table inet portolan-balancer {
	map servers { type ipv4_addr . inet_service : verdict; elements = { 192.0.2.1 . 80 : accept }; }
	chain arriving { type filter hook prerouting priority -300; policy accept; ip daddr . tcp dport vmap @servers; }
}
table ip portolan-balancer2 {
	map slots { type inet_service : ipv4_addr; elements = { 80 : 192.0.2.2 }; }
	chain arriving { type nat hook prerouting priority -111; policy accept; ip daddr 192.0.2.3 dnat to tcp dport map @slots; }
}
table ip6 portolan2 {
	chain hide { type nat hook postrouting priority 101; policy accept; ip6 saddr 2001:db8:2::/64 masquerade; }
}
table ip filter-of-others {
	chain output { type filter hook output priority 0; policy accept; ip daddr 192.0.2.4 reject; }
}
`

// iptablesRules are added with iptables-nft if the program exists and the kernel supports them.
var iptablesRules = [][]string{
	{"-t", "nat", "-A", "PREROUTING", "-d", "192.0.2.5/32", "-p", "tcp", "-j", "DNAT", "--to-destination", "192.0.2.6"},
	{"-A", "FORWARD", "-s", "192.0.2.7/32", "-j", "DROP"},
}

// Rules checks that foreign tables and routes in the namespaces of nodes stay unchanged.
type Rules struct {
	nodes map[string]*topology.Namespace
	saved map[string]map[string]string // by node: the text of each table and route, by name

	mu       sync.Mutex
	findings []check.Finding // from Monitor.Run
}

// AddRules adds foreign rules to the namespaces of a lab's nodes, and saves their state.
func AddRules(l *lab.Lab) *Rules {
	l.Helper()
	r := newRules(l)
	for name, ns := range r.nodes {
		if err := ns.Do(addRules); err != nil {
			l.Fatalf("%s: %v", name, err)
		}
	}
	if err := r.saveState(); err != nil {
		l.Fatal(err)
	}
	return r
}

// NewMonitor returns a Monitor that compares with the present state. Call it after AddRules.
func NewMonitor(l *lab.Lab) Monitor {
	l.Helper()
	r := newRules(l)
	if err := r.saveState(); err != nil {
		l.Fatal(err)
	}
	return Monitor{r}
}

func newRules(l *lab.Lab) *Rules {
	r := &Rules{nodes: map[string]*topology.Namespace{}, saved: map[string]map[string]string{}}
	for _, n := range l.Nodes {
		r.nodes[n.Name] = n.Namespace
	}
	return r
}

// addRules adds the foreign rules to the calling thread's namespace.
func addRules() error {
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(foreignTables)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, text)
	}
	for _, args := range iptablesRules {
		_ = exec.Command("iptables-nft", args...).Run() // optional, because the program or the kernel's support may be missing
	}
	return run("ip", "route", "add", "local", "192.0.2.128/25", "dev", "lo", "table", "local")
}

func run(program string, args ...string) error {
	if text, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, text)
	}
	return nil
}

// Remove removes the rules that AddRules added. It is called after nodeagent cleanup.
func (r *Rules) Remove() error {
	var errs []error
	for name, ns := range r.nodes {
		for what := range r.saved[name] {
			remove := []string{"ip", "route", "del", "local", "192.0.2.128/25", "dev", "lo", "table", "local"}
			if strings.HasPrefix(what, "table ") {
				remove = append([]string{"nft", "delete"}, strings.Fields(what)...)
			}
			errs = append(errs, ns.Do(func() error { return run(remove[0], remove[1:]...) }))
		}
	}
	return errors.Join(errs...)
}

// saveState saves the present state of all nodes, with which Check compares.
func (r *Rules) saveState() error {
	for name, ns := range r.nodes {
		state, err := listStable(ns)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r.saved[name] = state
	}
	return nil
}

// families are the names of table families in nft.
var families = map[nftables.TableFamily]string{
	nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6", nftables.TableFamilyINet: "inet",
	nftables.TableFamilyARP: "arp", nftables.TableFamilyBridge: "bridge", nftables.TableFamilyNetdev: "netdev",
}

// agentTables has the names of the tables of agents.
var agentTables = map[string]bool{
	"table ip portolan": true, "table ip6 portolan": true, "table ip portolan-balancer": true, "table ip6 portolan-balancer": true,
	"table ip portolan-probe": true, "table ip6 portolan-probe": true,
}

// If an agent's change interrupts a listing, nft begins again and prints some chains twice. So a
// listing is used only if consecutive reads are equal, and a difference is reported only if it
// persists.
const (
	equalReads = 3  // number of consecutive reads that must be equal
	maxReads   = 10 // number of reads after which a difference is reported
)

// listStable returns the foreign tables and routes of a namespace while agents change their own.
func listStable(ns *topology.Namespace) (map[string]string, error) {
	var last map[string]string
	for equal := 0; equal < equalReads; {
		state, err := list(ns)
		if err != nil {
			return nil, err
		}
		if equal++; !maps.Equal(state, last) {
			last, equal = state, 1
		}
	}
	return last, nil
}

// list returns the foreign tables and routes of a namespace.
func list(ns *topology.Namespace) (map[string]string, error) {
	state := map[string]string{}
	err := ns.Do(func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		all, err := conn.ListTables()
		if err != nil {
			return err
		}
		for _, t := range all {
			name := "table " + families[t.Family] + " " + t.Name
			if agentTables[name] {
				continue
			}
			text, err := exec.Command("nft", append([]string{"-s", "-a", "list"}, strings.Fields(name)...)...).Output()
			if err != nil {
				return fmt.Errorf("nft list %s: %w", name, err)
			}
			state[name] = string(text)
		}
		route, err := exec.Command("ip", "route", "show", "table", "local", "192.0.2.128/25").Output()
		if len(route) > 0 {
			state["route"] = string(route)
		}
		return err
	})
	return state, err
}

// Name implements check.Checker of both packages.
func (*Rules) Name() string { return "rules of others" }

// Check compares the present state with the saved one. It implements check.Checker of package
// churn.
func (r *Rules) Check(context.Context, *model.World) ([]check.Finding, error) {
	var findings []check.Finding
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		differences, err := r.checkNode(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		findings = append(findings, differences...)
	}
	return findings, nil
}

// checkNode returns the differences of a node that persist over several reads.
func (r *Rules) checkNode(name string) (findings []check.Finding, err error) {
	for range maxReads {
		state, err := list(r.nodes[name])
		if err != nil {
			return nil, err
		}
		if findings = r.compare(name, state); len(findings) == 0 {
			break
		}
	}
	return findings, nil
}

func (r *Rules) compare(node string, state map[string]string) []check.Finding {
	var findings []check.Finding
	addFinding := func(format string, args ...any) {
		findings = append(findings, check.Finding{
			Check: r.Name(), Object: object.Key{Kind: "Node", Name: node}, Problem: fmt.Sprintf(format, args...), Final: true,
		})
	}
	for _, what := range slices.Sorted(maps.Keys(r.saved[node])) {
		switch now, exists := state[what]; {
		case !exists:
			addFinding("%s was deleted", what)
		case now != r.saved[node][what]:
			addFinding("%s was changed:\n%sbefore:\n%s", what, now, r.saved[node][what])
		}
	}
	for _, what := range slices.Sorted(maps.Keys(state)) {
		if r.saved[node][what] == "" {
			addFinding("%s was added:\n%s", what, state[what])
		}
	}
	return findings
}

// Monitor checks foreign rules during a round.
type Monitor struct{ *Rules }

var _ promise.Checker = Monitor{}

// checkInterval is the time between two checks.
const checkInterval = time.Second

// Run checks until ctx is done, or until there is a finding.
func (w Monitor) Run(ctx context.Context) {
	for ctx.Err() == nil {
		findings, err := w.Rules.Check(ctx, nil)
		if err != nil {
			findings = append(findings, check.Finding{Check: w.Name(), Problem: err.Error(), Final: true})
		}
		if len(findings) > 0 {
			w.mu.Lock()
			w.findings = findings
			w.mu.Unlock()
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(checkInterval):
		}
	}
}

// Check implements promise.Checker.
func (w Monitor) Check(*history.History) []promise.Finding {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.findings)
}
