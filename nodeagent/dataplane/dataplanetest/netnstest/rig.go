package netnstest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/plan"
)

// Plane is a data plane that can take away what it has left in the kernel. It
// can only be closed after that.
type Plane interface {
	dataplane.Plane
	Cleanup() error
}

// Options of a rig.
type Options struct {
	Traits dataplanetest.Traits
	// Open opens the plane in the network namespace at a path, with this file for
	// its journal, and the ranges of Virtual.
	Open func(namespace, journal string) (Plane, error)
	// Occupy gives a frontend to somebody else in a way that only the plane's kind
	// of forwarding knows; nil: there is none.
	Occupy func(t testing.TB, n *Network, at plan.Frontend)
}

// Rig is a dataplanetest.Rig. One does for all scenarios.
type Rig struct {
	*Network
	options Options
	plane   Plane
	// others are what is in the namespace and not the plane's.
	others map[string]bool
}

var _ dataplanetest.Rig = (*Rig)(nil)

// New makes a network and opens the plane there.
func New(t testing.TB, o Options) *Rig {
	t.Helper()
	r := &Rig{Network: NewNetwork(t), options: o}
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

// Damage implements dataplanetest.Rig: somebody who takes a copy of the journal
// for their own cleans up.
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

// Cleanup implements dataplanetest.Rig. It compares all tables, routes, addresses
// and virtual servers of the namespace with those that are not the plane's.
func (r *Rig) Cleanup(t testing.TB) error {
	t.Helper()
	if err := r.plane.Cleanup(); err != nil {
		return err
	}
	r.close(t)
	found := r.inventory(t)
	var wrong []string
	for line := range found {
		if !r.others[line] {
			wrong = append(wrong, "left behind: "+line)
		}
	}
	for line := range r.others {
		if !found[line] {
			wrong = append(wrong, "taken away: "+line)
		}
	}
	r.open(t)
	if len(wrong) > 0 {
		return fmt.Errorf("after the cleanup: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// Occupy implements dataplanetest.Rig: somebody else has a frontend, and a table,
// a route and an address.
func (r *Rig) Occupy(t testing.TB, at plan.Frontend) (intact func() error) {
	t.Helper()
	before := r.inventory(t)
	r.foreign(t)
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
