package netnstest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/plan"
)

// Plane is a data plane that can remove its state from the kernel. After Cleanup, only Close may be
// called.
type Plane interface {
	dataplane.Plane
	Cleanup() error
}

// Options configure a Rig.
type Options struct {
	Traits dataplanetest.Traits
	// Open opens the plane in the network namespace at the given path, with the given journal file
	// and the ranges of Virtual.
	Open func(namespace, journal string) (Plane, error)
	// Alter changes the balancer's state for a frontend as another program would, so that clients are not served.
	Alter func(t testing.TB, n *Network, at plan.Frontend)
	// Occupy gives a frontend to another program in a way that only planes of this kind can detect;
	// nil: there is no such way.
	Occupy func(t testing.TB, n *Network, at plan.Frontend)
	// Emulated restricts the use of nft to one listing in each scenario, because a program takes up to a
	// second in an emulated kernel.
	Emulated bool
}

// Rig is a dataplanetest.Rig. One rig is enough for all scenarios.
type Rig struct {
	*Network
	options Options
	plane   Plane
	// others is the inventory without the plane.
	others map[string]bool
	nft    *Nft // nil: this machine has none
}

var _ dataplanetest.Rig = (*Rig)(nil)

// New makes a network and opens the plane in it.
func New(t testing.TB, o Options) *Rig {
	t.Helper()
	r := &Rig{Network: NewNetwork(t), options: o, nft: FindNft(t)}
	r.others = r.inventory(t)
	r.open(t)
	t.Cleanup(func() { r.close(t) })
	return r
}

func (r *Rig) open(t testing.TB) {
	t.Helper()
	var err error
	if r.plane, err = r.options.Open(r.Node.Path, r.Journal); err != nil {
		t.Fatal(err)
	}
}

func (r *Rig) close(t testing.TB) {
	t.Helper()
	if r.plane == nil {
		return
	}
	if err := r.plane.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	r.plane = nil
}

// Plane implements dataplanetest.Rig.
func (r *Rig) Plane() dataplane.Plane { return r.plane }

// Traits implements dataplanetest.Rig.
func (r *Rig) Traits() dataplanetest.Traits { return r.options.Traits }

// Machine implements dataplanetest.Rig.
func (r *Rig) Machine() dataplanetest.Machine {
	return dataplanetest.Machine{IPv6: true, Sources6: true, SCTP: hasSCTP()}
}

// Restart implements dataplanetest.Rig.
func (r *Rig) Restart(t testing.TB) {
	t.Helper()
	r.close(t)
	r.open(t)
}

// Damage implements dataplanetest.Rig. A second plane, with a copy of the journal, cleans up the
// first plane's state.
func (r *Rig) Damage(t testing.TB) {
	t.Helper()
	text, err := os.ReadFile(r.Journal)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "journal")
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		t.Fatal(err)
	}
	vandal, err := r.options.Open(r.Node.Path, copied)
	if err != nil {
		t.Fatal(err)
	}
	there, err := vandal.State(t.Context())
	if err := errors.Join(err, vandal.Cleanup(), vandal.Close()); err != nil {
		t.Fatal(err)
	}
	if len(there.Servers) == 0 {
		t.Fatal("there was nothing to take away")
	}
}

// Alter implements dataplanetest.Rig.
func (r *Rig) Alter(t testing.TB, at plan.Frontend) {
	t.Helper()
	before := r.inventory(t)
	r.options.Alter(t, r.Network, at)
	if maps.Equal(before, r.inventory(t)) {
		t.Fatal("nothing was changed")
	}
}

// Cleanup implements dataplanetest.Rig. It compares the inventory of the namespace with the inventory from
// before the plane was opened.
func (r *Rig) Cleanup(t testing.TB) error {
	t.Helper()
	if err := r.plane.Cleanup(); err != nil {
		return err
	}
	r.close(t)
	wrong := Differences(r.others, r.inventory(t))
	r.open(t)
	if len(wrong) > 0 {
		return fmt.Errorf("after the cleanup: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// Occupy implements dataplanetest.Rig. Another program gets the frontend, and a table, a route and
// an address.
func (r *Rig) Occupy(t testing.TB, at plan.Frontend) (intact func() error) {
	t.Helper()
	before := r.inventory(t)
	r.Foreign(t)
	if r.options.Occupy != nil {
		r.options.Occupy(t, r.Network, at)
	}
	var theirs []string
	for line := range r.inventory(t) {
		if !before[line] {
			theirs = append(theirs, line)
			r.others[line] = true
		}
	}
	return func() error {
		now := r.inventory(t)
		for _, line := range theirs {
			if !now[line] {
				return fmt.Errorf("somebody else's has gone: %s", line)
			}
		}
		return nil
	}
}
