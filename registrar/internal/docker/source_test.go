package docker

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"portolan.dev/services/kit/kittest"
)

func TestFirstReportIsComplete(t *testing.T) {
	e := newFakeEngine(t)
	for n := 1; n <= 30; n++ {
		e.set(web(n), "start")
	}
	s := newSource(t, Options{Socket: e.socket})
	s.pace = defaultPace // no reconnects on a slow machine
	r := run(t, s)
	kittest.Eventually(t, "a report", func() error { _, err := r.last(); return err })
	r.mu.Lock()
	first := r.all[0]
	r.mu.Unlock()
	if len(first.Workloads) != 30 || first.Err != nil {
		t.Errorf("the first report has %d workloads and the error %v, want all 30", len(first.Workloads), first.Err)
	}
}

func TestEmptyEngineIsReported(t *testing.T) {
	e := newFakeEngine(t)
	run(t, newSource(t, Options{Socket: e.socket})).reports(t)
}

func TestLifeOfAContainer(t *testing.T) {
	e := newFakeEngine(t)
	r := run(t, newSource(t, Options{Socket: e.socket}))
	r.reports(t)
	c := web(1)
	c.State.Health = &struct{ Status string }{"starting"}
	for _, step := range []struct {
		change func()
		event  string
		want   []string
	}{
		{func() {}, "start", []string{"web1 unready"}},
		{func() { c.State.Health.Status = "healthy" }, "health_status: healthy", []string{"web1 ready"}},
		{func() { c.State.Health.Status = "unhealthy" }, "health_status: unhealthy", []string{"web1 unready"}},
		{func() { c.State.Health = nil }, "start", []string{"web1 ready"}},
		{func() { c.State.Status = "paused" }, "pause", []string{"web1 unready"}},
		{func() { c.State.Status = "running" }, "unpause", []string{"web1 ready"}},
		{func() { c.Name = "/shop" }, "rename", []string{"shop ready"}},
		{func() { c.State.Status = "restarting" }, "die", nil},
		{func() { c.State.Status, c.State.StartedAt = "running", time.Now() }, "start", []string{"shop ready"}},
		{func() { c.State.Status = "exited" }, "die", nil},
		{func() { c.State.Status, c.State.StartedAt = "running", time.Now() }, "start", []string{"shop ready"}},
		{func() { c.State.Status = "dead" }, "die", nil},
	} {
		step.change()
		e.set(c, step.event)
		r.reports(t, step.want...)
	}
}

func TestSignals(t *testing.T) {
	for _, test := range []struct {
		stopSignal, signal string
		terminating        bool
	}{
		{"", "15", true}, {"", "9", true}, {"", "2", true}, {"", "3", true},
		{"", "1", false}, {"", "10", false}, {"", "28", false}, {"", "18", false},
		{"SIGWINCH", "28", true}, {"SIGUSR1", "10", true}, {"HUP", "1", true}, {"37", "37", true}, {"SIGRTMIN+3", "37", true},
		{"SIGQUIT", "15", true}, {"SIGWINCH", "1", false}, {"nonsense", "15", true}, {"", "nonsense", false}, {"", "SIGTERM", true},
	} {
		t.Run(test.stopSignal+"/"+test.signal, func(t *testing.T) {
			e := newFakeEngine(t)
			c := web(1, func(c *container) { c.Config.StopSignal = test.stopSignal })
			e.set(c, "start")
			r := run(t, newSource(t, Options{Socket: e.socket}))
			r.reports(t, "web1 ready")
			e.signal(c.ID, test.signal)
			e.set(web(2), "start") // the source reads events in order, so it has read the signal when it reports this container
			if test.terminating {
				r.reports(t, "web1 terminating", "web2 ready")
			} else {
				r.reports(t, "web1 ready", "web2 ready")
			}
		})
	}
}

func TestSignalNumber(t *testing.T) {
	for text, want := range map[string]int{
		"15": 15, "SIGTERM": 15, "term": 15, "sigkill": 9, "USR1": 10, "SIGWINCH": 28, "SIGSYS": 31, "RTMIN": 34, "SIGRTMIN+3": 37, "RTMAX-1": 63, "SIGRTMAX": 64,
		"": 0, "SIG": 0, "-": 0, "0": 0, "65": 0, "-1": 0, "SIGNONE": 0, "RTMIN+x": 0, "RTMAX+1": 0,
	} {
		if got := signalNumber(text); got != want {
			t.Errorf("signalNumber(%q) = %d, want %d", text, got, want)
		}
	}
}

// TestTerminatingIsReportedWithoutAQuestion checks that a container is reported as terminating although the
// engine does not answer about it. Engines lock a container while they stop it.
func TestTerminatingIsReportedWithoutAQuestion(t *testing.T) {
	e := newFakeEngine(t)
	c := web(1)
	e.set(c, "start")
	r := run(t, newSource(t, Options{Socket: e.socket}))
	r.reports(t, "web1 ready")
	e.change(func() { e.silent[c.ID] = true })
	e.signal(c.ID, "15")
	r.reports(t, "web1 terminating")
}

func TestTerminatingEndsWithANewStart(t *testing.T) {
	e := newFakeEngine(t)
	c := web(1)
	e.set(c, "start")
	r := run(t, newSource(t, Options{Socket: e.socket}))
	r.reports(t, "web1 ready")
	e.signal(c.ID, "15")
	r.reports(t, "web1 terminating")
	c.State.StartedAt = time.Now()
	e.set(c, "start")
	r.reports(t, "web1 ready")
}

func TestSurvivorOfItsStopSignal(t *testing.T) {
	e := newFakeEngine(t)
	c := web(1)
	e.set(c, "start")
	r := run(t, newSource(t, Options{Socket: e.socket}))
	r.reports(t, "web1 ready")
	e.change(func() { // as if the signal had come so long ago that 2 s are left of the time to stop
		one := event{Type: "container", Action: "kill", TimeNano: time.Now().Add(2*time.Second - defaultStopTimeout - stopMargin).UnixNano()}
		one.Actor.ID, one.Actor.Attributes = c.ID, map[string]string{"signal": "15"}
		e.containers[c.ID].State.StartedAt = time.Now().Add(-time.Hour)
		e.send(c.ID, "rename", "")
		for stream := range e.streams {
			stream <- one
		}
	})
	r.reports(t, "web1 terminating")
	r.reports(t, "web1 ready")
}

// TestSignalsFromBeforeTheStart checks that a container that was asked to stop before the source started is
// terminating in the first report.
func TestSignalsFromBeforeTheStart(t *testing.T) {
	e := newFakeEngine(t)
	c := web(1)
	e.set(c, "start")
	e.signal(c.ID, "15")
	run(t, newSource(t, Options{Socket: e.socket})).reports(t, "web1 terminating")
}

func TestSignalsStayOverReconnects(t *testing.T) {
	e := newFakeEngine(t)
	c := web(1)
	e.set(c, "start")
	r := run(t, newSource(t, Options{Socket: e.socket}))
	r.reports(t, "web1 ready")
	e.signal(c.ID, "15")
	r.reports(t, "web1 terminating")
	e.stop()
	r.fails(t, "")
	e.change(func() { e.history = nil }) // an engine that was restarted
	e.start(t)
	r.reports(t, "web1 terminating")
}

func TestLostEventsAreRepairedByTheList(t *testing.T) {
	e := newFakeEngine(t)
	e.set(web(1), "start")
	e.set(web(2), "start")
	r := run(t, newSource(t, Options{Socket: e.socket, Relist: 100 * time.Millisecond}))
	r.reports(t, "web1 ready", "web2 ready")
	e.change(func() { e.deaf = true })
	e.remove(idOf(1))
	e.set(web(3), "start")
	r.reports(t, "web2 ready", "web3 ready")
}

func TestChangesWhileDisconnected(t *testing.T) {
	e := newFakeEngine(t)
	e.set(web(1), "start")
	r := run(t, newSource(t, Options{Socket: e.socket}))
	r.reports(t, "web1 ready")
	e.stop()
	r.fails(t, "")
	e.remove(idOf(1))
	e.set(web(2), "start")
	e.change(func() { e.history = nil })
	e.start(t)
	r.reports(t, "web2 ready")
}

func TestNoEngine(t *testing.T) {
	e := newFakeEngine(t)
	e.stop()
	_ = os.Remove(e.socket)
	r := run(t, newSource(t, Options{Socket: e.socket}))
	r.fails(t, "-docker-socket")
	e.set(web(1), "start")
	e.start(t)
	r.reports(t, "web1 ready")
}

func TestHangingEngine(t *testing.T) {
	e := newFakeEngine(t)
	e.set(web(1), "start")
	r := run(t, newSource(t, Options{Socket: e.socket}))
	r.reports(t, "web1 ready")
	e.change(func() { e.hung = true }) // the stream of events stays open
	r.fails(t, "no answer within")
	e.change(func() { e.hung = false })
	r.reports(t, "web1 ready")
}

// TestOneContainerHangs checks that a container about which the engine does not answer keeps its last state,
// that other containers are not affected, and that the source inspects it again.
func TestOneContainerHangs(t *testing.T) {
	e := newFakeEngine(t)
	e.set(web(1), "start")
	r := run(t, newSource(t, Options{Socket: e.socket}))
	r.reports(t, "web1 ready")
	e.change(func() { e.silent[idOf(1)] = true })
	e.set(web(1, func(c *container) { c.State.Status = "paused" }), "pause")
	e.set(web(2), "start")
	r.reports(t, "web1 ready", "web2 ready")
	kittest.Eventually(t, "the problem NoAnswer", func() error {
		last, err := r.last()
		if err == nil && !strings.Contains(fmt.Sprint(last.Problems), reasonNoAnswer) {
			err = fmt.Errorf("the problems are %v", last.Problems)
		}
		return err
	})
	e.change(func() { delete(e.silent, idOf(1)) })
	r.reports(t, "web1 unready", "web2 ready")
}

func TestGarbage(t *testing.T) {
	for end, bodies := range map[string][]string{
		"/version":         {"", "{", "[]", `{"ApiVersion":"x"}`, `{"ApiVersion":"1.41","MinAPIVersion":"one"}`, `{}`, strings.Repeat(" ", maxSmall+1)},
		"/containers/json": {"", "{", "{}", `[{"Id":`, `[{"Id":7}]`},
		"/events":          {"", "nonsense", `{"Type":7}`, `{"Type":"container","Actor":`},
	} {
		for _, body := range bodies {
			t.Run(end+"/"+body[:min(len(body), 20)], func(t *testing.T) {
				e := newFakeEngine(t)
				e.set(web(1), "start")
				e.change(func() { e.bodies[end] = body })
				r := run(t, newSource(t, Options{Socket: e.socket}))
				kittest.Eventually(t, "a report of the failure", func() error {
					r.mu.Lock()
					defer r.mu.Unlock()
					for _, report := range r.all {
						if report.Err != nil {
							return nil
						}
					}
					return fmt.Errorf("%d reports have no error", len(r.all))
				})
				e.change(func() { delete(e.bodies, end) })
				r.reports(t, "web1 ready")
			})
		}
	}
}

func TestGarbageAboutOneContainer(t *testing.T) {
	for _, body := range []string{"", "{", "[]", "{}", `{"Id":"0"}`, `{"Id":"` + idOf(1) + `","State":{"StartedAt":"yesterday"}}`} {
		t.Run(body, func(t *testing.T) {
			e := newFakeEngine(t)
			e.set(web(1), "start")
			e.set(web(2), "start")
			e.change(func() { e.bodies[idOf(1)+"/json"] = body })
			r := run(t, newSource(t, Options{Socket: e.socket}))
			r.reports(t, "web2 ready")
			e.change(func() { delete(e.bodies, idOf(1)+"/json") })
			r.reports(t, "web1 ready", "web2 ready")
		})
	}
}

func TestOddIDsAreNotAskedAbout(t *testing.T) {
	e := newFakeEngine(t)
	e.set(web(1), "start")
	e.change(func() { e.bodies["/containers/json"] = `[{"Id":"../../secrets"},{"Id":""},{"Id":"` + idOf(1) + `"}]` })
	r := run(t, newSource(t, Options{Socket: e.socket}))
	r.reports(t, "web1 ready")
	e.change(func() { e.send("../x", "start", "") })
	e.set(web(2), "start")
	r.reports(t, "web1 ready", "web2 ready")
	if n := e.asked("secrets/json") + e.asked("x/json"); n > 0 {
		t.Errorf("an ID that is none became %d requests", n)
	}
}

func TestVersions(t *testing.T) {
	for _, test := range []struct {
		oldest, newest, want string
	}{
		{"", "1.24", "1.24"}, {"1.12", "1.41", "1.41"}, {"1.24", "1.51", "1.51"}, {"1.44", "1.52", "1.52"}, {"1.44", "1.60", "1.52"}, {"1.24", "2.0", "1.52"},
		{"", "1.23", ""}, {"1.53", "1.60", ""}, {"2.0", "2.1", ""},
	} {
		t.Run(test.oldest+"-"+test.newest, func(t *testing.T) {
			e := newFakeEngine(t)
			e.version = engineVersion{APIVersion: test.newest, MinAPIVersion: test.oldest}
			e.set(web(1), "start")
			r := run(t, newSource(t, Options{Socket: e.socket}))
			if test.want == "" {
				r.fails(t, "update the older of both")
				return
			}
			r.reports(t, "web1 ready")
			if e.asked("/v"+test.want+"/containers/json") == 0 {
				t.Errorf("the engine was not asked by version %s: %q", test.want, e.requests)
			}
		})
	}
}

// TestFewRequests checks that several events about one container cause one request, and that events without
// a change cause no report.
func TestFewRequests(t *testing.T) {
	e := newFakeEngine(t)
	e.set(web(1), "start")
	s := newSource(t, Options{Socket: e.socket})
	s.pace = defaultPace // no reconnects on a slow machine
	r := run(t, s)
	r.reports(t, "web1 ready")
	reports, questions := r.count(), e.asked(idOf(1)+"/json")
	e.change(func() {
		for range 200 {
			e.send(idOf(1), "health_status: healthy", "")
		}
	})
	e.set(web(2), "start")
	r.reports(t, "web1 ready", "web2 ready")
	if n := e.asked(idOf(1)+"/json") - questions; n > 100 {
		t.Errorf("200 events became %d questions", n)
	}
	if n := r.count() - reports; n != 1 {
		t.Errorf("there are %d reports of one change", n)
	}
}

func TestTooManyEvents(t *testing.T) {
	i := newInbox()
	for n := range maxPending + 10 {
		i.put(&event{Type: "container", Action: "start", Actor: struct {
			ID         string
			Attributes map[string]string
		}{ID: idOf(n)}})
	}
	if heard := i.take(); !heard.all || len(heard.changed) > maxPending {
		t.Errorf("the inbox has %d containers, and all is %t", len(heard.changed), heard.all)
	}
	if heard := i.take(); heard.all || len(heard.changed) > 0 {
		t.Errorf("news are taken twice: %v", heard)
	}
}
