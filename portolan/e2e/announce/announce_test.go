package announce

import (
	"fmt"
	"slices"
	"testing"
	"time"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	lbannounce "portolan.dev/lbctl/announce"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/kittest"
)

// deaths is the number of owners that die one after the other: enough that each node was the owner, and more for a
// distribution of the times.
var deaths = kittest.Repetitions(5, 20)

// TestOnlyTheOwnerAnswers runs one installation through all that can happen to an owner. The order
// of claims is checked after each part, and the times are printed.
func TestOnlyTheOwnerAnswers(t *testing.T) {
	l := install(t, kernelModes(t)[0], lbannounce.DefaultValidity)
	l.ask(t)
	for _, addr := range balanced {
		owner := l.owner(t, addr, "")
		l.answered(t, addr, owner, 0)
		if got := l.claimants(addr, 0); !slices.Equal(got, []string{owner}) {
			t.Errorf("%s is claimed by %v, and its owner is %s", addr, got, owner)
		}
		kittest.Eventually(t, "the service at "+addr.String(), func() error { return l.reach(addr) })
	}
	t.Run("status of the agent", l.showsStatus)
	t.Run("planned restart", l.keepsThroughARestart)
	t.Run("drain", l.leavesWhenDraining)
	t.Run("cut off from the control plane", l.stopsWhenCutOff)
	t.Run("agent killed", l.keepsThroughADeath)
	t.Run("node dead", l.failsOver)
	for _, addr := range nobodys {
		if got := l.claimants(addr, 0); len(got) > 0 {
			t.Errorf("%s, which no service has, is claimed by %v", addr, got)
		}
	}
}

func (l *lan) showsStatus(t *testing.T) {
	owner := l.node(l.owner(t, balanced[0], ""))
	kittest.Eventually(t, "the status", func() error {
		status, err := owner.Agent.GetStatus(t.Context(), &nodeagentv1.GetStatusRequest{})
		if err != nil {
			return err
		}
		a := status.GetAnnouncing()
		if a.GetController() != lbctlAt || !slices.Equal(a.GetInterfaces(), []string{"lan"}) || a.GetRightsEndSeconds() <= 0 ||
			!slices.ContainsFunc(a.GetAddresses(), func(one *nodeagentv1.AnnouncedAddress) bool { return one.GetAddress() == balanced[0].String() }) {
			return fmt.Errorf("status %v", a)
		}
		return nil
	})
}

// keepsThroughARestart restarts the agent of an owner as a supervisor does. Its addresses stay, and
// the service can be reached meanwhile by a client that knows the node.
func (l *lan) keepsThroughARestart(t *testing.T) {
	before := len(l.capture.all())
	name := l.owner(t, balanced[0], "")
	owner := l.node(name)
	if err := l.reach(balanced[0]); err != nil {
		t.Fatal(err)
	}
	owner.Process.Stop()
	if err := l.reach(balanced[0]); err != nil {
		t.Errorf("while the agent does not run: %v", err)
	}
	stopped := len(l.capture.all())
	l.StartAgent(owner)
	l.answered(t, balanced[0], name, stopped)
	if got := l.claimants(balanced[0], before); !slices.Equal(got, []string{name}) {
		t.Errorf("claimed by %v, and the owner is %s", got, name)
	}
	awaitReady(t, owner)
}

// leavesWhenDraining drains an owner. Another node takes over without the wait for the right to end.
func (l *lan) leavesWhenDraining(t *testing.T) {
	before := len(l.capture.all())
	name := l.owner(t, balanced[0], "")
	owner := l.node(name)
	l.drain(t, owner, false) // the connection to the agent, which was restarted
	begun := time.Now()
	l.drain(t, owner, true)
	next := l.owner(t, balanced[0], name)
	first := l.answered(t, balanced[0], next, before)
	t.Logf("drain_to_first_answer_seconds: %.3f", first.at.Sub(begun).Seconds())
	if err := l.reach(balanced[0]); err != nil {
		t.Error(err)
	}
	l.checkOrder(t, before)
	l.drain(t, owner, false)
}

// drain drains a node, or ends that.
func (l *lan) drain(t *testing.T, node *labtest.Node, on bool) {
	t.Helper()
	// The connection to an agent that was restarted may take some time.
	kittest.Eventually(t, "the agent of "+node.Name, func() error {
		_, err := node.Agent.SetDraining(t.Context(), &nodeagentv1.SetDrainingRequest{Draining: on})
		return err
	})
}

// stopsWhenCutOff cuts an owner off from the control plane, but not from the LAN.
func (l *lan) stopsWhenCutOff(t *testing.T) {
	before := len(l.capture.all())
	name := l.owner(t, balanced[0], "")
	begun := time.Now()
	l.cut(t, l.node(name), true)
	next := l.owner(t, balanced[0], name)
	first := l.answered(t, balanced[0], next, before)
	var last time.Time
	for _, c := range l.capture.all()[before:] {
		if c.address == balanced[0] && c.node == name {
			last = c.at
		}
	}
	t.Logf("cut_off_to_last_answer_seconds: %.3f, to_first_answer_of_another_node_seconds: %.3f", last.Sub(begun).Seconds(), first.at.Sub(begun).Seconds())
	if !last.Before(first.at) {
		t.Errorf("%s answered at %s, after %s had begun to at %s", name, last, next, first.at)
	}
	kittest.Eventually(t, "the service", func() error { return l.reach(balanced[0]) })
	l.checkOrder(t, before)
	l.cut(t, l.node(name), false)
}

// keepsThroughADeath kills the agent of an owner. The node keeps the address, and forwards for a
// client that knows it, until the restarted agent answers again.
func (l *lan) keepsThroughADeath(t *testing.T) {
	before := len(l.capture.all())
	name := l.owner(t, balanced[0], "")
	owner := l.node(name)
	open := l.dial(t, balanced[0])
	killed := time.Now()
	owner.Process.Kill()
	dead := len(l.capture.all())
	for range ticks(t, longerThanAFailOver) {
		if err := open.echo(); err != nil {
			t.Fatalf("an open connection, %s after the death of the agent: %v", time.Since(killed), err)
		}
		if err := l.reach(balanced[0]); err != nil {
			t.Fatalf("a new connection, %s after the death of the agent: %v", time.Since(killed), err)
		}
	}
	if got := l.claimants(balanced[0], dead); len(got) > 0 {
		t.Errorf("%v answer while the agent of %s does not run", got, name)
	}
	l.StartAgent(owner)
	first := l.answered(t, balanced[0], name, dead)
	t.Logf("agent_killed_to_its_answer_seconds: %.2f", first.at.Sub(killed).Seconds())
	if got := l.claimants(balanced[0], before); !slices.Equal(got, []string{name}) {
		t.Errorf("claimed by %v, and the owner is %s", got, name)
	}
	if err := open.echo(); err != nil {
		t.Errorf("an open connection, after the restart: %v", err)
	}
	awaitReady(t, owner)
}

// longerThanAFailOver is a time in which another node would have taken over.
const longerThanAFailOver = 4 * time.Second

// ticks returns a channel with a few ticks a second, which is closed after a time.
func ticks(t *testing.T, long time.Duration) <-chan time.Time {
	out := make(chan time.Time)
	go func() {
		defer close(out)
		ticker, end := time.NewTicker(100*time.Millisecond), time.NewTimer(long)
		defer ticker.Stop()
		for {
			select {
			case at := <-ticker.C:
				out <- at
			case <-end.C:
				return
			case <-t.Context().Done():
				return
			}
		}
	}()
	return out
}

// failsOver ends the node of the owner again and again. Connections through the other nodes go on.
func (l *lan) failsOver(t *testing.T) {
	var answers, connections []time.Duration
	others := 0
	for range deaths {
		before := len(l.capture.all())
		name := l.owner(t, balanced[0], "")
		owner := l.node(name)
		var open *connection
		if l.owner(t, balanced[1], "") != name {
			open = l.dial(t, balanced[1])
		}
		died := time.Now()
		l.die(t, owner)
		next := l.owner(t, balanced[0], name)
		first := l.answered(t, balanced[0], next, before)
		answers = append(answers, first.at.Sub(died))
		kittest.Eventually(t, "the service", func() error { return l.reach(balanced[0]) })
		connections = append(connections, time.Since(died))
		if open != nil {
			others++
			if err := open.echo(); err != nil {
				t.Errorf("a connection through another node than %s: %v", name, err)
			}
		}
		l.checkOrder(t, before)
		l.revive(t, owner)
	}
	t.Logf("others: in %d of %d rounds a connection went through another node", others, deaths)
	for _, one := range []struct {
		name  string
		times []time.Duration
	}{{"death_to_first_answer_seconds", answers}, {"death_to_connection_seconds", connections}} {
		slices.Sort(one.times)
		t.Logf("%s: median %.2f, longest %.2f of %d", one.name, one.times[deaths/2].Seconds(), one.times[deaths-1].Seconds(), deaths)
	}
}
