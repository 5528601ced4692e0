package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// testRotateAuthority replaces the authority and all certificates while all processes run, and
// checks that afterwards no process uses or trusts an earlier certificate.
func testRotateAuthority(t *testing.T, l *Lab) {
	before := certificateFiles(t.TempDir(), identity.Operator)
	must(t, l.certificates.issue(l.Identity.ID(), nil, before, nil))

	awaitReload(t, l, l.AddAuthority)
	must(t, replaceFile(before.CA, l.certificates.bundle(), nil))
	must(t, l.issueTestCertificate())
	forEachMachine(t, l, func(m *Machine) error { return errors.Join(m.Rotate(), m.AwaitRotated()) })
	awaitReload(t, l, l.RemoveOldAuthorities)

	source, err := identity.Open(identity.Options{Files: before, Log: kittest.Logger(t)})
	must(t, err)
	forEachMachine(t, l, func(m *Machine) error {
		if _, err := m.presentedSerial(l.Identity); err != nil {
			return err
		}
		if _, err := m.presentedSerial(source); err == nil {
			return errors.New("the process accepts a client certificate of a removed authority")
		}
		return nil
	})
	reconnect(t, l)
}

// forEachMachine calls do concurrently for all machines. It fails the test if a call fails.
func forEachMachine(t *testing.T, l *Lab, do func(*Machine) error) {
	t.Helper()
	var wg sync.WaitGroup
	for _, m := range l.Machines() {
		wg.Go(func() {
			if err := do(m); err != nil {
				t.Errorf("%s: %v", m.Name, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// daemons returns the machines that run a daemon of Portolan.
func (l *Lab) daemons() []*Machine {
	return slices.DeleteFunc(slices.Clone(l.machines), func(m *Machine) bool { return ports[programOf(m.Name)] == 0 })
}

// awaitReload calls change, which changes certificate files, and waits until all daemons report
// that they have loaded the new files.
func awaitReload(t *testing.T, l *Lab, change func() error) {
	t.Helper()
	reloads := func(m *Machine) (float64, error) { return m.Metric("portolan_tls_reloads_total", `outcome="taken"`) }
	before := map[*Machine]float64{}
	for _, m := range l.daemons() {
		before[m], _ = reloads(m) // the series does not exist before the first reload
	}
	must(t, change())
	for _, m := range l.daemons() {
		kittest.Eventually(t, m.Name, func() error {
			now, err := reloads(m)
			if err == nil && now <= before[m] {
				err = errors.New("the new certificate files are not loaded")
			}
			return err
		})
	}
}

// reconnect ends the connections between machines by a fail-over and by restarts, and checks that
// the machines connect to each other again.
func reconnect(t *testing.T, l *Lab) {
	t.Helper()
	must(t, l.FailOver())
	awaitCreateService(t, l, "failed-over") // the running registries connect to the new primary
	for _, m := range slices.Concat(l.brokers, []*Machine{l.Machine("registry-0"), l.Machine("registry-1"), l.Machine("allocator-0")}) {
		must(t, m.Kill())
	}
	for _, name := range []string{"allocator-0", "registry-0", "registry-1"} {
		l.Machine(name).Start()
	}
	revision := awaitCreateService(t, l, "rotated") // the registries reach the allocator
	for _, m := range l.followers() {               // without NATS they follow a registry
		kittest.Eventually(t, m.Name, func() error { return m.checkApplied(revision) })
	}
	for _, m := range l.brokers {
		m.Start()
	}
	must(t, l.Rejoin())
	must(t, l.AwaitReady())
	kittest.Eventually(t, "connections to NATS", func() error { return l.checkNATSConnections(l.daemons(), true) })
}

// followers returns the machines with daemons that follow the log.
func (l *Lab) followers() []*Machine {
	return slices.DeleteFunc(l.daemons(), func(m *Machine) bool { return programOf(m.Name) == "registry" })
}

// checkApplied returns an error if a follower has not applied a revision yet.
func (m *Machine) checkApplied(revision uint64) error {
	at, err := m.Metric("portolan_changes_revision")
	if err == nil && uint64(at) < revision {
		err = fmt.Errorf("the follower has applied revision %.0f, want %d", at, revision)
	}
	return err
}

// checkNATSConnections returns an error unless, if want is true, all of the daemons are connected
// to NATS, or, if want is false, none of them.
func (l *Lab) checkNATSConnections(daemons []*Machine, want bool) error {
	connected := map[string]bool{}
	for _, m := range l.brokers {
		text, err := m.get(netip.AddrPortFrom(m.Addresses[0], monitorPort).String(), "/connz")
		if err != nil {
			return err
		}
		var answer struct{ Connections []struct{ IP string } }
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			return err
		}
		for _, c := range answer.Connections {
			connected[c.IP] = true
		}
	}
	for _, m := range daemons {
		if has := connected[m.Addresses[0].String()]; has != want {
			return fmt.Errorf("%s connected to NATS: %t, want %t", m.Name, has, want)
		}
	}
	return nil
}
