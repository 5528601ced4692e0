package bgp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"portolan.dev/nodeagent/machine"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

// fakeSpeaker records the calls of the advertiser.
type fakeSpeaker struct {
	options machine.SpeakerOptions
	mu      sync.Mutex
	routes  map[netip.Addr]bool
	changes int
	fails   error
	closed  chan bool // receives keep
}

func (s *fakeSpeaker) Change(advertise, withdraw []netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes += len(advertise) + len(withdraw)
	if s.fails != nil {
		return s.fails
	}
	for _, addr := range advertise {
		s.routes[addr] = true
	}
	for _, addr := range withdraw {
		delete(s.routes, addr)
	}
	return nil
}

func (s *fakeSpeaker) Close(keep bool) { s.closed <- keep }

func (s *fakeSpeaker) list() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return texts(slices.SortedFunc(maps.Keys(s.routes), netip.Addr.Compare))
}

// rig is an advertiser with a fake speaker.
type rig struct {
	*Advertiser
	t       *testing.T
	opened  chan *fakeSpeaker
	metrics *prometheus.Registry

	mu       sync.Mutex
	eligible bool
	warning  string
}

func newRig(t *testing.T, change func(*Options)) *rig {
	r := &rig{t: t, opened: make(chan *fakeSpeaker, 1), metrics: prometheus.NewRegistry(), eligible: true}
	o := Options{
		Config: Config{Peers: []string{"10.0.0.254@64513", "fd00::254@64513"}, AS: 64512, HoldTime: 9 * time.Second, GracefulRestart: 30 * time.Second, Hops: 1},
		Node:   "here", Address: func() netip.Addr { return netip.MustParseAddr("10.0.0.1") }, Stays: true,
		Open: func(o machine.SpeakerOptions) (machine.Speaker, error) {
			s := &fakeSpeaker{options: o, routes: map[netip.Addr]bool{}, closed: make(chan bool, 1)}
			for _, addr := range o.Routes {
				s.routes[addr] = true
			}
			r.opened <- s
			return s, nil
		},
		Eligible: func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.eligible },
		Warn: func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.warning = ""
			if err != nil {
				r.warning = err.Error()
			}
		},
		Metrics: r.metrics, Log: kittest.Logger(t),
	}
	if change != nil {
		change(&o)
	}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	r.Advertiser = New(o)
	return r
}

// start runs the advertiser with these frontends, and returns its speaker.
func (r *rig) start(frontends ...string) (*fakeSpeaker, func()) {
	r.t.Helper()
	stop := kittest.Run(r.t, "advertiser", r.Run)
	for _, f := range frontends {
		r.set(f)
	}
	r.Synced()
	select {
	case s := <-r.opened:
		return s, stop
	case <-time.After(30 * time.Second):
		r.t.Fatal("the speaker was not opened")
	}
	return nil, nil
}

func (r *rig) set(frontend string) {
	r.t.Helper()
	r.Programmed([]plan.FrontendServers{planned(r.t, frontend)}, nil)
}

func (r *rig) setEligible(eligible bool) {
	r.mu.Lock()
	r.eligible = eligible
	r.mu.Unlock()
	r.Wake()
}

func (r *rig) await(s *fakeSpeaker, want string) {
	r.t.Helper()
	kittest.Eventually(r.t, fmt.Sprintf("the routes %q", want), func() error {
		if got := s.list(); got != want {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
}

func (r *rig) awaitWarning(part string) {
	r.t.Helper()
	kittest.Eventually(r.t, fmt.Sprintf("the warning %q", part), func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if part == "" && r.warning != "" || !strings.Contains(r.warning, part) {
			return errors.New(r.warning)
		}
		return nil
	})
}

// TestRoutesFollowFrontendsAndNode checks the routes after changes of frontends and of the node.
func TestRoutesFollowFrontendsAndNode(t *testing.T) {
	r := newRig(t, nil)
	s, stop := r.start("web 10.9.0.1:80 any 1", "mail 10.9.0.2:25 any 0")
	if got := texts(s.options.Routes); got != "10.9.0.1" {
		t.Errorf("the first routes are %q", got)
	}
	r.set("mail 10.9.0.2:25 any 1")
	r.await(s, "10.9.0.1 10.9.0.2")
	r.set("- 10.9.0.1:80")
	r.await(s, "10.9.0.2")
	s.mu.Lock()
	changes := s.changes
	s.mu.Unlock()
	if changes != 2 {
		t.Errorf("%d routes were changed, want 2: a change must concern its own address only", changes)
	}
	r.setEligible(false)
	r.await(s, "")
	r.set("web 10.9.0.3:80 any 1")
	r.setEligible(true)
	r.await(s, "10.9.0.2 10.9.0.3")
	if got := testutil.ToFloat64(r.Advertiser.metrics.changes.WithLabelValues("withdrawn")); got != 2 {
		t.Errorf("%g routes counted as withdrawn, want 2", got)
	}
	stop()
	if keep := <-s.closed; !keep {
		t.Error("routers are not asked to keep the routes over a restart")
	}
}

// TestNothingBeginsBeforeTheFirstSync checks that the sessions begin only when the agent knows all routes, so
// that peers keep the routes that they have.
func TestNothingBeginsBeforeTheFirstSync(t *testing.T) {
	r := newRig(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.set("web 10.9.0.1:80 any 1")
	r.Wake()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(r.opened) > 0 {
		t.Error("the speaker was opened")
	}
}

// TestWhichRoutesAreKept checks in which states an agent that stops asks routers to keep its routes.
func TestWhichRoutesAreKept(t *testing.T) {
	for _, c := range []struct {
		name            string
		restart         time.Duration
		stays, eligible bool
		keep            bool
	}{
		{"the kernel forwards", 30 * time.Second, true, true, true},
		{"without graceful restart", 0, true, true, false},
		{"the agent forwards", 30 * time.Second, false, true, false},
		{"the node drains", 30 * time.Second, true, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.GracefulRestart, o.Stays = c.restart, c.stays })
			s, stop := r.start("web 10.9.0.1:80 any 1")
			r.mu.Lock()
			r.eligible = c.eligible // without Wake: the agent stops at the same moment
			r.mu.Unlock()
			stop()
			if keep := <-s.closed; keep != c.keep {
				t.Errorf("keep: %t, want %t", keep, c.keep)
			}
			if asked := s.options.Restart > 0; asked != (c.restart > 0 && c.stays) {
				t.Errorf("asked for a restart time of %s", s.options.Restart)
			}
		})
	}
}

// TestFailedChangeIsRepeated checks that a failed change is repeated with the next change.
func TestFailedChangeIsRepeated(t *testing.T) {
	r := newRig(t, nil)
	s, _ := r.start()
	fail := func(err error) { s.mu.Lock(); defer s.mu.Unlock(); s.fails = err }
	fail(errors.New("no memory"))
	r.set("web 10.9.0.1:80 any 1")
	r.awaitWarning("no memory")
	if got := r.Status(); got.GetError() != "no memory" || len(got.GetAddresses()) > 0 {
		t.Errorf("status %v", got)
	}
	fail(nil)
	r.Wake()
	r.await(s, "10.9.0.1")
	r.awaitWarning("")
}

// TestSessions checks the status of the sessions.
func TestSessions(t *testing.T) {
	r := newRig(t, nil)
	s, _ := r.start("web 10.9.0.1:80 any 1")
	one, two := s.options.Peers[0], s.options.Peers[1]
	s.options.Changed(one, true, "")
	s.options.Changed(two, true, "")
	r.awaitWarning("")
	s.options.Changed(two, false, "hold timer expired")
	r.awaitWarning("no session with fd00::254@64513 since")
	status := r.Status()
	if status.GetRouterId() != "10.0.0.1" || status.GetAsNumber() != 64512 || !status.GetEligible() || !slices.Equal(status.GetAddresses(), []string{"10.9.0.1"}) {
		t.Errorf("status %v", status)
	}
	if p := status.GetPeers(); len(p) != 2 || !p[0].GetEstablished() || p[1].GetEstablished() || p[1].GetReason() != "hold timer expired" || p[0].GetPeer() != "10.0.0.254@64513" {
		t.Errorf("peers %v", p)
	}
	want := `
# HELP portolan_nodeagent_bgp_peer_up 1 if the session with a BGP peer is established, otherwise 0.
# TYPE portolan_nodeagent_bgp_peer_up gauge
portolan_nodeagent_bgp_peer_up{peer="10.0.0.254"} 1
portolan_nodeagent_bgp_peer_up{peer="fd00::254"} 0
# HELP portolan_nodeagent_bgp_session_changes_total Sessions with a BGP peer that have begun or ended, by change (began, ended).
# TYPE portolan_nodeagent_bgp_session_changes_total counter
portolan_nodeagent_bgp_session_changes_total{change="began",peer="10.0.0.254"} 1
portolan_nodeagent_bgp_session_changes_total{change="began",peer="fd00::254"} 1
portolan_nodeagent_bgp_session_changes_total{change="ended",peer="10.0.0.254"} 0
portolan_nodeagent_bgp_session_changes_total{change="ended",peer="fd00::254"} 1
`
	if err := testutil.GatherAndCompare(r.metrics, strings.NewReader(want), "portolan_nodeagent_bgp_peer_up", "portolan_nodeagent_bgp_session_changes_total"); err != nil {
		t.Error(err)
	}
	s.options.Changed(two, true, "")
	r.awaitWarning("")
}

// TestPeerWithoutAFirstSessionIsAFault checks the warning about a peer that never answers.
func TestPeerWithoutAFirstSessionIsAFault(t *testing.T) {
	r := newRig(t, nil)
	s, _ := r.start()
	s.options.Changed(s.options.Peers[0], true, "")
	r.Advertiser.mu.Lock()
	r.Advertiser.opened = time.Now().Add(-time.Minute)
	r.Advertiser.mu.Unlock()
	r.Wake()
	r.awaitWarning("no session with fd00::254@64513 since the start")
}

func TestSettingsOfTheSpeaker(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(o *Options) {
		o.Peers, o.Communities, o.PasswordFile = []string{"10.0.0.254:1790@4200000000"}, []string{"64512:100", "64512:1:2"}, file
		o.GracefulRestart, o.BFD, o.Hops = 0, 300*time.Millisecond, 2
	})
	got, err := r.settings()
	if err != nil {
		t.Fatal(err)
	}
	got.Changed, got.Log = nil, nil
	want := machine.SpeakerOptions{
		AS: 64512, RouterID: netip.MustParseAddr("10.0.0.1"), Peers: []machine.SpeakerPeer{{Addr: netip.MustParseAddrPort("10.0.0.254:1790"), AS: 4200000000}},
		Communities: []uint32{64512<<16 | 100}, LargeCommunities: [][3]uint32{{64512, 1, 2}},
		HoldTime: 9 * time.Second, BFD: 300 * time.Millisecond, Hops: 2, Password: "secret",
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	for name, content := range map[string]string{"empty": "\n", "long": strings.Repeat("x", 81)} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := r.settings(); err == nil {
			t.Errorf("a password that is %s was accepted", name)
		}
	}
}

func TestRouterID(t *testing.T) {
	id := func(change func(*Options)) string { return newRig(t, change).identifier().String() }
	if got := id(nil); got != "10.0.0.1" {
		t.Errorf("of a node with IPv4: %s", got)
	}
	if got := id(func(o *Options) { o.RouterID = "192.0.2.1" }); got != "192.0.2.1" {
		t.Errorf("as configured: %s", got)
	}
	none := func() netip.Addr { return netip.Addr{} }
	one, again, other := id(func(o *Options) { o.Address = none }), id(func(o *Options) { o.Address = none }), id(func(o *Options) { o.Address, o.Node = none, "there" })
	if one != again || one == other || one == "0.0.0.0" {
		t.Errorf("without IPv4: %s, %s, of another node %s", one, again, other)
	}
}

func TestValidate(t *testing.T) {
	valid := Config{Peers: []string{"10.0.0.1@64513"}, AS: 64512, HoldTime: 9 * time.Second, GracefulRestart: 30 * time.Second, Hops: 1}
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string // part of the error; empty: none
	}{
		{"valid", func(*Config) {}, ""},
		{"without peers nothing is checked", func(c *Config) { *c = Config{RouterID: "x"} }, ""},
		{"IPv6", func(c *Config) { c.Peers = []string{"fd00::1@1", "[fd00::2]:1790@4294967295"} }, ""},
		{"no AS of the peer", func(c *Config) { c.Peers = []string{"10.0.0.1"} }, "is not ADDRESS@AS"},
		{"AS 0", func(c *Config) { c.Peers = []string{"10.0.0.1@0"} }, "is not ADDRESS@AS"},
		{"AS too large", func(c *Config) { c.Peers = []string{"10.0.0.1@4294967296"} }, "is not ADDRESS@AS"},
		{"a name", func(c *Config) { c.Peers = []string{"router@64513"} }, "no address of a router"},
		{"port 0", func(c *Config) { c.Peers = []string{"10.0.0.1:0@64513"} }, "no address of a router"},
		{"link-local", func(c *Config) { c.Peers = []string{"fe80::1%eth0@64513"} }, "no address of a router"},
		{"twice", func(c *Config) { c.Peers = []string{"10.0.0.1@64513", "10.0.0.1:1790@64514"} }, "there twice"},
		{"no own AS", func(c *Config) { c.AS = 0 }, "bgp-as"},
		{"router ID of IPv6", func(c *Config) { c.RouterID = "fd00::1" }, "bgp-router-id"},
		{"community", func(c *Config) { c.Communities = []string{"65536:1"} }, "bgp-communities"},
		{"community of one part", func(c *Config) { c.Communities = []string{"1"} }, "bgp-communities"},
		{"large community", func(c *Config) { c.Communities = []string{"65536:1:4294967295", "1:2"} }, ""},
		{"short hold time", func(c *Config) { c.HoldTime = 2 * time.Second }, "bgp-hold-time"},
		{"hold time of half a second", func(c *Config) { c.HoldTime = 9500 * time.Millisecond }, "bgp-hold-time"},
		{"long restart", func(c *Config) { c.GracefulRestart = 2 * time.Hour }, "bgp-graceful-restart"},
		{"BFD and graceful restart", func(c *Config) { c.BFD = time.Second }, "bgp-bfd"},
		{"BFD", func(c *Config) { c.BFD, c.GracefulRestart = time.Second, 0 }, ""},
		{"BFD too often", func(c *Config) { c.BFD, c.GracefulRestart = time.Millisecond, 0 }, "bgp-bfd"},
		{"no hops", func(c *Config) { c.Hops = 0 }, "bgp-hops"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := valid
			c.change(&config)
			err := config.Validate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestServedAddressesAreAdvertised checks that the addresses that a proxy on the node serves are
// advertised from the beginning of the sessions, while the node may take traffic.
func TestServedAddressesAreAdvertised(t *testing.T) {
	r := newRig(t, nil)
	proxied := netip.MustParseAddr("10.0.0.7")
	r.Served([]netip.Addr{proxied})
	speaker, _ := r.start("web 10.0.0.1:80 any 1")
	r.await(speaker, "10.0.0.1 10.0.0.7")
	r.setEligible(false)
	r.await(speaker, "")
	r.setEligible(true)
	r.await(speaker, "10.0.0.1 10.0.0.7")
	r.Served(nil)
	r.await(speaker, "10.0.0.1")
	r.Served([]netip.Addr{proxied})
	r.await(speaker, "10.0.0.1 10.0.0.7")
}
