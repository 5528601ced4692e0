package kernel_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/packetfilter"
	"portolan.dev/nodeagent/dataplane/userspace"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/services/kit/kittest"
)

// localsWorld is a namespace in which addresses are made local.
type localsWorld struct {
	t       *testing.T
	ns      *topology.Namespace
	options kernel.Options
	before  map[string]bool // the inventory without routes
	arp     map[string]string
}

func newLocalsWorld(t *testing.T) *localsWorld {
	kerneltest.Need(t)
	w := &localsWorld{t: t, ns: topology.New(t, "node")}
	w.options = kernel.Options{
		Log: kittest.Logger(t), Namespace: w.ns.Path, Journal: filepath.Join(t.TempDir(), "userspace.journal"), ServiceCIDRs: ranges, StrictARP: true,
	}
	w.before, w.arp = w.inventory(), w.settings()
	return w
}

func (w *localsWorld) open() *kernel.Locals {
	w.t.Helper()
	l, err := kernel.OpenLocals(w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *localsWorld) inventory() map[string]bool {
	w.t.Helper()
	lines, err := netnstest.Inventory(w.ns)
	if err != nil {
		w.t.Fatal(err)
	}
	return lines
}

func (w *localsWorld) settings() map[string]string {
	w.t.Helper()
	values := map[string]string{}
	err := w.ns.Do(func() error {
		for _, s := range host.StrictARP {
			value, err := host.Sysctls{}.Setting(s.Name)
			if err != nil {
				return err
			}
			values[s.Name] = value
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return values
}

// made checks that there are exactly these routes more than at the beginning.
func (w *localsWorld) made(prefixes ...string) {
	w.t.Helper()
	var want []string
	for _, p := range prefixes {
		want = append(want, fmt.Sprintf("more: route of type %d to %s via <nil> on 1 in table 255", unix.RTN_LOCAL, p))
	}
	slices.Sort(want)
	if got := netnstest.Differences(w.before, w.inventory()); !slices.Equal(got, want) {
		w.t.Errorf("differences %q, want %q", got, want)
	}
}

// unchanged checks that nothing is left in the namespace or on disk.
func (w *localsWorld) unchanged() {
	w.t.Helper()
	w.made()
	if now := w.settings(); fmt.Sprint(now) != fmt.Sprint(w.arp) {
		w.t.Errorf("settings %v, were %v", now, w.arp)
	}
	if _, err := os.Stat(w.options.Journal); !errors.Is(err, os.ErrNotExist) {
		w.t.Errorf("the journal is left: %v", err)
	}
}

func add(t *testing.T, l *kernel.Locals, addrs ...string) {
	t.Helper()
	for _, a := range addrs {
		if err := l.Add(netip.MustParseAddr(a)); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
}

// TestLocalsMakeAddressesLocal checks that nothing is changed before an address needs it, that an address in a range is
// made local with the range and another one alone, that the route of an address ends with its last user, and that
// nothing is left in the end.
func TestLocalsMakeAddressesLocal(t *testing.T) {
	w := newLocalsWorld(t)
	l := w.open()
	add(t, l, "127.96.0.1", "::1")
	w.made()
	if fmt.Sprint(w.settings()) != fmt.Sprint(w.arp) {
		t.Error("a setting was changed for addresses of the loopback device")
	}
	add(t, l, "10.96.0.5", "10.96.3.6", "fd00:96::5", "203.0.113.9", "203.0.113.9", "2001:db8::9")
	w.made("10.96.0.0/16", "fd00:96::/112", "203.0.113.9/32", "2001:db8::9/128")
	for _, s := range host.StrictARP {
		if now := w.settings()[s.Name]; now != s.Want {
			t.Errorf("%s is %s, want %s", s.Name, now, s.Want)
		}
	}
	l.Release(netip.MustParseAddr("203.0.113.9"))
	l.Release(netip.MustParseAddr("2001:db8::9"))
	l.Release(netip.MustParseAddr("10.96.0.5"))
	w.made("10.96.0.0/16", "fd00:96::/112", "203.0.113.9/32")
	l.Release(netip.MustParseAddr("203.0.113.9"))
	w.made("10.96.0.0/16", "fd00:96::/112")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	w.unchanged()
}

// TestLocalsWithoutStrictARP checks that no setting is changed if the option is off.
func TestLocalsWithoutStrictARP(t *testing.T) {
	w := newLocalsWorld(t)
	w.options.StrictARP = false
	l := w.open()
	add(t, l, "10.96.0.5")
	if now := w.settings(); fmt.Sprint(now) != fmt.Sprint(w.arp) {
		t.Errorf("settings %v, were %v", now, w.arp)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	w.unchanged()
}

// TestLocalsOfAKilledAgent checks that the next agent removes the routes and restores the settings of an agent that
// was killed.
func TestLocalsOfAKilledAgent(t *testing.T) {
	w := newLocalsWorld(t)
	killed := w.open()
	add(t, killed, "10.96.0.5", "203.0.113.9")
	killed.Kill()
	w.made("10.96.0.0/16", "203.0.113.9/32")
	if err := w.open().Close(); err != nil {
		t.Error(err)
	}
	w.unchanged()
}

// TestLocalsLeaveRoutesOfOthers checks that an address that is local already gets no route, and that the routes and
// addresses of other programs stay.
func TestLocalsLeaveRoutesOfOthers(t *testing.T) {
	w := newLocalsWorld(t)
	w.ns.Local(t, ranges[0])
	w.ns.Link(t, "lo", []netip.Prefix{netip.MustParsePrefix("203.0.113.9/32")})
	w.before = w.inventory()
	l := w.open()
	add(t, l, "10.96.0.5", "203.0.113.9")
	w.made()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	w.unchanged()
}

// TestLocalsComeBack checks that a route that another program removes is restored.
func TestLocalsComeBack(t *testing.T) {
	w := newLocalsWorld(t)
	l := w.open()
	add(t, l, "10.96.0.5", "fd00:96::5", "203.0.113.9")
	err := w.ns.Do(func() error {
		r, err := host.NewRoutes(host.PlaneRoutes)
		if err != nil {
			return err
		}
		defer r.Close()
		for _, p := range r.All() {
			err = errors.Join(err, r.Delete(p))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the routes", func() error {
		if missing := len(netnstest.Differences(w.before, w.inventory())); missing != 3 {
			return fmt.Errorf("%d routes", missing)
		}
		return nil
	})
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	w.unchanged()
}

// TestLocalsWithoutRights checks that an agent without CAP_NET_ADMIN names the commands that make the addresses local,
// and that it listens once an operator has carried them out.
func TestLocalsWithoutRights(t *testing.T) {
	w := newLocalsWorld(t)
	w.options.StrictARP = false
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends without its rights
		failed <- host.Within("", func() error { return w.withoutRights() })
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

func (w *localsWorld) withoutRights() error {
	file, err := os.Open(w.ns.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	w.options.Namespace = ""
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return err
	}
	l, err := kernel.OpenLocals(w.options)
	if err != nil {
		return err
	}
	err = l.Add(netip.MustParseAddr("10.96.0.5"))
	ofNode, ok := errors.AsType[*dataplane.NodeError](err)
	if !ok || !errors.Is(err, unix.EPERM) {
		w.t.Errorf("error %v, want one of the node", err)
	} else if want := "ip route add local 10.96.0.0/16 dev lo && ip -6 route add local fd00:96::/112 dev lo"; !strings.HasSuffix(ofNode.Remedy, want) {
		w.t.Errorf("remedy %q, want %q", ofNode.Remedy, want)
	}
	err = l.Add(netip.MustParseAddr("2001:db8::9"))
	if one, ok := errors.AsType[*userspace.NotLocalError](err); !ok || !strings.HasSuffix(one.Remedy, "ip -6 route add local 2001:db8::9/128 dev lo") {
		w.t.Errorf("error %v", err)
	}
	for _, r := range ranges {
		w.ns.Local(w.t, r)
	}
	for _, a := range []string{"10.96.0.5", "fd00:96::5"} {
		if err := l.Add(netip.MustParseAddr(a)); err != nil {
			w.t.Errorf("after the commands: %v", err)
		}
	}
	w.before = w.inventory()
	if err := l.Close(); err != nil {
		w.t.Errorf("an agent without rights cannot end: %v", err)
	}
	w.made()
	return nil
}

// TestLocalsRemoveRulesOfPlanes checks that the rules and routes that a plane in the kernel has left are removed even if
// it had no servers, and that those of an agent that still runs stay.
func TestLocalsRemoveRulesOfPlanes(t *testing.T) {
	w := newLocalsWorld(t)
	f, err := packetfilter.New(w.ns.Path, ranges, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Install(), f.Close()); err != nil {
		t.Fatal(err)
	}
	r := routes(t, w.ns)
	if err := r.Add(ranges[0]); err != nil {
		t.Fatal(err)
	}
	left := w.inventory()
	w.options.Shared = true
	second := w.open()
	add(t, second, "10.96.0.5", "203.0.113.9")
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if wrong := netnstest.Differences(left, w.inventory()); len(wrong) > 0 {
		t.Errorf("beside another agent: %q", wrong)
	}
	w.options.Shared = false
	if err := w.open().Close(); err != nil {
		t.Error(err)
	}
	w.unchanged()
}
