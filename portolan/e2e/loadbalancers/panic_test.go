package loadbalancers

import (
	"errors"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// TestAServiceThatPanicsEndsNoDaemon lets the work of lbctl and of the allocator for one service panic. Another one gets
// its load balancer, and this one has an Event of lbctl, and a load balancer after its next change.
func TestAServiceThatPanicsEndsNoDaemon(t *testing.T) {
	for _, step := range []string{changes.StepView, "enqueue", "sync"} {
		t.Run(step, func(t *testing.T) {
			i := install(t)
			i.guards["lbctl"].BreakName("bad", step)
			i.guards["allocator"].BreakName("bad", changes.StepView)
			i.create(balanced("first"))
			i.awaitAddresses("first", 1) // lbctl leads: at its beginning it syncs all services of its view
			i.create(balanced("bad"))
			i.create(balanced("web"))
			i.awaitAddresses("web", 1)
			for _, daemon := range []string{"lbctl", "allocator"} {
				i.guards[daemon].Await("Service default/bad")
			}
			i.awaitEvent("bad", guard.Reason, step+": panic: broken on purpose")
			i.awaitAddresses("bad", 0)
			i.guards["lbctl"].Mend()
			i.guards["allocator"].Mend()
			i.update("bad", annotate("example.com/changed", "yes"))
			i.awaitAddresses("bad", 1)
			for _, daemon := range []string{"lbctl", "allocator"} {
				i.guards[daemon].Await()
			}
		})
	}
}

// TestAnnouncementsOfOthersAreWritten lets the writing of announcements panic for one service.
func TestAnnouncementsOfOthersAreWritten(t *testing.T) {
	i := install(t)
	i.guards["lbctl"].BreakName("bad", "announced")
	i.create(balanced("bad"))
	i.create(balanced("web"))
	announced := func(name string) *corev1.Condition {
		return object.Condition(i.get(name).GetStatus().GetConditions(), object.ConditionAnnounced)
	}
	kittest.Eventually(t, "the announcement of the other service", func() error {
		if announced("web") == nil {
			return errors.New("it has no condition")
		}
		return nil
	})
	i.guards["lbctl"].Await("Service default/bad")
	if c := announced("bad"); c != nil {
		t.Errorf("condition %v", c)
	}
	i.delete("bad")
	i.awaitGone("bad")
	i.guards["lbctl"].Await()
}
