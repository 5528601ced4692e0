package proxymode

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
)

var errNoModule = errors.New("no such module")

// modeless are the modes of a kernel that supports none of them. They record the calls.
type modeless struct {
	calls []string
	left  []string // modes that have left servers in the kernel
}

func (m *modeless) mode(name string) kernelmode.Mode {
	return kernelmode.Mode{
		Name:     name,
		HasState: func(kernelmode.Options) (bool, error) { return slices.Contains(m.left, name), nil },
		Open: func(o kernelmode.Options) (kernelmode.Plane, error) {
			m.calls = append(m.calls, "open "+name)
			return nil, errNoModule
		},
		OpenPredecessor: func(o kernelmode.Options) (kernelmode.Predecessor, error) {
			m.calls = append(m.calls, "precede "+name)
			return nil, errNoModule
		},
	}
}

// options returns the options of a mode on a kernel that supports no mode. The journals of the
// given modes exist.
func (m *modeless) options(t *testing.T, mode string, journals ...string) Options {
	o := Options{
		Mode: mode, DataDir: t.TempDir(), Modes: []kernelmode.Mode{m.mode(IPVS), m.mode(NFTables)}, Log: kittest.Logger(t),
	}
	for _, used := range journals {
		if err := os.WriteFile(o.journal(used), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// TestOpenFallsBack checks the modes that are tried for a configured one, and that the reason for
// the fallback names each of them.
func TestOpenFallsBack(t *testing.T) {
	for mode, tried := range map[string][]string{
		Auto: {IPVS, NFTables}, IPVS: {IPVS, NFTables}, NFTables: {NFTables}, IPTables: {NFTables}, Userspace: nil,
	} {
		m := &modeless{}
		opened, err := Open(m.options(t, mode))
		if err != nil {
			t.Fatal(err)
		}
		plane, fallback := opened.Plane, opened.Fallback
		defer plane.Close()
		var want []string
		for _, name := range tried {
			want = append(want, "open "+name)
			if !strings.Contains(fallback, name+" does not work here: "+errNoModule.Error()) {
				t.Errorf("%s: the reason %q does not name %s", mode, fallback, name)
			}
		}
		if plane.Name() != Userspace || !slices.Equal(m.calls, want) || (fallback == "") != (len(tried) == 0) {
			t.Errorf("%s: plane %s after %q, fallback %q", mode, plane.Name(), m.calls, fallback)
		}
	}
}

// TestStrictDoesNotFallBack checks that Open fails after the first mode.
func TestStrictDoesNotFallBack(t *testing.T) {
	m := &modeless{}
	o := m.options(t, Auto)
	o.Strict = true
	if _, err := Open(o); !errors.Is(err, errNoModule) || !slices.Equal(m.calls, []string{"open " + IPVS}) {
		t.Errorf("error %v after %q", err, m.calls)
	}
}

// TestOtherSystems checks that a machine without modes in the kernel forwards in userspace.
func TestOtherSystems(t *testing.T) {
	o := Options{Mode: Auto, DataDir: t.TempDir(), Log: kittest.Logger(t)}
	opened, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	plane, fallback := opened.Plane, opened.Fallback
	defer plane.Close()
	if plane.Name() != Userspace || !strings.Contains(fallback, "Linux only") {
		t.Errorf("plane %s, fallback %q", plane.Name(), fallback)
	}
	o.Strict = true
	if _, err := Open(o); !errors.Is(err, errNoKernelModes) {
		t.Errorf("strict: %v", err)
	}
}

// TestOpenReadsOtherModes checks that the state of another mode is taken over if its journal exists, and if the
// kernel has servers of the mode although the journal is lost. If no mode works in the end, all of them are cleaned up.
func TestOpenReadsOtherModes(t *testing.T) {
	for name, c := range map[string]struct {
		journals, left []string
		want           []string
	}{
		"nothing":     {nil, nil, []string{"open " + NFTables}},
		"its own":     {[]string{NFTables}, nil, []string{"open " + NFTables, "open " + NFTables}},
		"a journal":   {[]string{IPVS, NFTables}, nil, []string{"precede " + IPVS, "open " + NFTables, "open " + IPVS, "open " + NFTables}},
		"no journal":  {nil, []string{IPVS}, []string{"precede " + IPVS, "open " + NFTables, "open " + IPVS}},
		"own servers": {nil, []string{NFTables}, []string{"open " + NFTables, "open " + NFTables}},
	} {
		m := &modeless{left: c.left}
		opened, err := Open(m.options(t, NFTables, c.journals...))
		if err != nil {
			t.Fatal(err)
		}
		defer opened.Plane.Close()
		if !slices.Equal(m.calls, c.want) {
			t.Errorf("%s: calls %q, want %q", name, m.calls, c.want)
		}
		if (opened.Left != nil) != (len(c.left) > 0) { // a journal alone may be from before a reboot
			t.Errorf("%s: the state that could not be removed is %v", name, opened.Left)
		}
	}
}

// TestUserspaceWithoutRights checks that an agent that may not look for the servers of other modes takes them for
// absent. It may not have left any.
func TestUserspaceWithoutRights(t *testing.T) {
	m := &modeless{}
	o := m.options(t, Userspace)
	for i := range o.Modes {
		o.Modes[i].HasState = func(kernelmode.Options) (bool, error) { return false, syscall.EPERM }
	}
	opened, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Plane.Close()
	if opened.Left != nil || len(m.calls) > 0 {
		t.Errorf("left %v after %q", opened.Left, m.calls)
	}
}

// TestCleanup checks that exactly the modes with a journal, or with servers in the kernel, are opened, and that
// errors are returned.
func TestCleanup(t *testing.T) {
	m := &modeless{}
	if err := Cleanup(m.options(t, Auto)); err != nil || len(m.calls) > 0 {
		t.Errorf("without journals: error %v after %q", err, m.calls)
	}
	m.left = []string{IPVS}
	if err := Cleanup(m.options(t, Auto, NFTables)); !errors.Is(err, errNoModule) || !slices.Equal(m.calls, []string{"open " + IPVS, "open " + NFTables}) {
		t.Errorf("error %v after %q", err, m.calls)
	}
}

// TestJoin checks that the first state wins.
func TestJoin(t *testing.T) {
	key := func(audience plan.Audience) plan.Key { return plan.Key{Audience: audience} }
	one, two := &plan.VirtualServer{}, &plan.VirtualServer{}
	b := &plan.State{Servers: map[plan.Key]*plan.VirtualServer{key(plan.AnyClient): two, key(plan.Internal): two}}
	if got := join(nil, b); got != b {
		t.Errorf("join of nothing and a state is %v", got)
	}
	got := join(&plan.State{Servers: map[plan.Key]*plan.VirtualServer{key(plan.AnyClient): one}}, b)
	if len(got.Servers) != 2 || got.Servers[key(plan.AnyClient)] != one || got.Servers[key(plan.Internal)] != two {
		t.Errorf("joined %v", got.Servers)
	}
}
