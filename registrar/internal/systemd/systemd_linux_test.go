package systemd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/registrar/internal/systemd"
	"portolan.dev/registrar/source"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/kittest/systemdtest"
)

// fixture is a source at a real systemd.
type fixture struct {
	*systemdtest.Machine
	t       testing.TB
	source  *systemd.Source
	metrics *prometheus.Registry

	mu      sync.Mutex
	reports []source.Report
}

// start boots a systemd with units and runs a source. With relist = never, there is no periodic list, so the
// test shows that signals are enough.
func start(t *testing.T, relist time.Duration, units map[string]string) *fixture {
	t.Helper()
	t.Parallel() // the tests wait most of the time
	f := &fixture{Machine: systemdtest.Start(t), t: t, metrics: prometheus.NewRegistry()}
	for name, content := range units {
		f.WriteUnit(name, content)
	}
	f.source = systemd.New(systemd.Options{Address: f.BusAddress(), Root: f.Root(), Relist: relist, Log: kittest.Logger(t), Metrics: f.metrics})
	f.source.SetTimeout(10 * time.Second)
	f.run()
	f.wait("the first report", func(source.Report) error { return nil })
	return f
}

func (f *fixture) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.source.Run(ctx, f.receive) }()
	f.t.Cleanup(func() {
		cancel()
		if err := kittest.Receive(f.t, "the end of the source", ended); err != nil {
			f.t.Error(err)
		}
	})
}

const never = 24 * time.Hour

func (f *fixture) receive(r source.Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports = append(f.reports, r)
}

// history returns the reports after the first n.
func (f *fixture) history(n int) []source.Report {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.reports[n:])
}

// wait waits until the newest report satisfies check.
func (f *fixture) wait(what string, check func(source.Report) error) source.Report {
	f.t.Helper()
	var last source.Report
	kittest.Eventually(f.t, what, func() error {
		reports := f.history(0)
		if len(reports) == 0 {
			return fmt.Errorf("no report")
		}
		last = reports[len(reports)-1]
		return check(last)
	})
	return last
}

// waitFor waits until the newest report has the workloads want, in the form of line.
func (f *fixture) waitFor(want ...string) source.Report {
	f.t.Helper()
	return f.wait("workloads "+strings.Join(want, ", "), func(r source.Report) error {
		if got := lines(r); !slices.Equal(got, want) || r.Err != nil {
			return fmt.Errorf("workloads are %q (error %v, problems %v)", got, r.Err, r.Problems)
		}
		return nil
	})
}

func lines(r source.Report) []string {
	var all []string
	for _, w := range r.Workloads {
		all = append(all, line(w))
	}
	return all
}

// line returns a workload as "ID SERVICE STATE". STATE is ready, unready, terminating, or terminating/ready.
func line(w source.Workload) string {
	state := "unready"
	switch {
	case w.Terminating && w.Ready:
		state = "terminating/ready"
	case w.Terminating:
		state = "terminating"
	case w.Ready:
		state = "ready"
	}
	return w.ID + " " + w.Service + " " + state
}

// calls returns the number of calls of systemd so far.
func (f *fixture) calls() int {
	families, err := f.metrics.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	total := 0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			total += int(m.GetCounter().GetValue())
		}
	}
	return total
}

const (
	sleeps = "[Service]\nExecStart=sleep infinity\n"
	web    = sleeps + "X-Portolan-Service=web\nX-Portolan-Port-http=8000\n"
)

func TestStartAndStop(t *testing.T) {
	f := start(t, never, map[string]string{"web.service": web, "other.service": sleeps})
	f.Systemctl("start", "other.service", "web.service")
	r := f.waitFor("web.service web ready")
	if w := r.Workloads[0]; w.Name != "web" || !w.HostNetwork || len(w.Addresses) != 0 || len(w.Ports) != 1 || w.Ports[0].Number != 8000 || len(w.Problems) != 0 {
		t.Errorf("the workload is %+v", w)
	}
	f.Systemctl("stop", "web.service")
	f.waitFor()
	f.Systemctl("start", "web.service")
	f.waitFor("web.service web ready")
	f.Systemctl("kill", "--signal=KILL", "web.service")
	f.waitFor() // failed
	f.Systemctl("reset-failed", "web.service")
	f.Systemctl("start", "web.service")
	f.waitFor("web.service web ready")
}

// TestStopDrains stops a unit with the ExecStop of docs/systemd.md, during which the program goes on.
func TestStopDrains(t *testing.T) {
	const unit = web + "X-Portolan-Drain=5s\n" + `ExecStop=sh -c 'test -z "$MAINPID" || until test -e /run/drained; do sleep 0.02; done'` + "\nRestart=on-failure\n"
	f := start(t, never, map[string]string{"web.service": unit})
	f.Systemctl("start", "web.service")
	if w := f.waitFor("web.service web ready").Workloads[0]; w.Drain != 5*time.Second {
		t.Errorf("drain is %s", w.Drain)
	}
	f.Systemctl("stop", "--no-block", "web.service")
	f.waitFor("web.service web terminating/ready")
	f.Write("/run/drained", "")
	f.waitFor()
	f.Remove("/run/drained")

	// The command does not wait after a crash.
	f.Systemctl("start", "web.service")
	f.waitFor("web.service web ready")
	before := mainPID(f, "web.service")
	f.Systemctl("kill", "--kill-whom=main", "--signal=KILL", "web.service")
	kittest.Eventually(t, "the unit to be started again", func() error {
		if pid := mainPID(f, "web.service"); pid == before || pid == "0" {
			return fmt.Errorf("main process is %s", pid)
		}
		return nil
	})
	f.waitFor("web.service web ready")
	f.Write("/run/drained", "")
}

func mainPID(f *fixture, unit string) string {
	return strings.TrimSpace(f.Systemctl("show", "--value", "--property=MainPID", unit))
}

// TestStoppingWithoutMainProcess checks that a unit is not ready while only its ExecStopPost runs.
func TestStoppingWithoutMainProcess(t *testing.T) {
	const unit = web + "ExecStopPost=sh -c 'until test -e /run/done; do sleep 0.02; done'\n"
	f := start(t, never, map[string]string{"web.service": unit})
	f.Systemctl("start", "web.service")
	f.waitFor("web.service web ready")
	f.Systemctl("stop", "--no-block", "web.service")
	r := f.waitFor("web.service web terminating")
	if reason := r.Workloads[0].Reason; !strings.Contains(reason, "main process has ended") {
		t.Errorf("reason is %q", reason)
	}
	f.Write("/run/done", "")
	f.waitFor()
}

// TestQueuedStop checks that a unit is terminating while its stop waits for the stop of another unit.
func TestQueuedStop(t *testing.T) {
	f := start(t, never, map[string]string{
		"database.service": web,
		"user.service":     "[Unit]\nAfter=database.service\n[Service]\nExecStart=sleep infinity\nExecStop=sh -c 'until test -e /run/done; do sleep 0.02; done'\n",
	})
	f.Systemctl("start", "database.service", "user.service")
	f.waitFor("database.service web ready")
	f.Systemctl("stop", "--no-block", "user.service")
	f.Systemctl("stop", "--no-block", "database.service")
	f.waitFor("database.service web terminating/ready")
	if state := f.Systemctl("show", "--value", "--property=ActiveState", "database.service"); state != "active\n" {
		t.Errorf("the unit is %s while its stop is queued", state)
	}
	f.Write("/run/done", "")
	f.waitFor()
}

// notifies is a unit that becomes ready, reloads, and is ready again when the test writes files.
const notifies = `[Service]
Type=notify
NotifyAccess=all
ExecStart=sh -c 'until test -e /run/ready; do sleep 0.02; done; systemd-notify --ready; exec sleep infinity'
ExecReload=sh -c 'until test -e /run/reloaded; do sleep 0.02; done'
X-Portolan-Service=web
X-Portolan-Port-http=8000
`

func TestNotify(t *testing.T) {
	f := start(t, never, map[string]string{"web.service": notifies, "other.service": web})
	f.Systemctl("start", "--no-block", "web.service")
	f.Systemctl("start", "other.service")
	f.waitFor("other.service web ready")
	if state := f.Systemctl("show", "--value", "--property=ActiveState", "web.service"); state != "activating\n" {
		t.Fatalf("the unit is %s before READY=1", state)
	}
	f.Write("/run/ready", "")
	f.waitFor("other.service web ready", "web.service web ready")

	seen := len(f.history(0))
	f.Systemctl("reload", "--no-block", "web.service")
	kittest.Eventually(t, "the unit to reload", func() error {
		if state := f.Systemctl("show", "--value", "--property=ActiveState", "web.service"); state != "reloading\n" {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
	f.Systemctl("stop", "other.service")
	f.waitFor("web.service web ready")
	f.Write("/run/reloaded", "")
	f.Systemctl("start", "other.service")
	f.waitFor("other.service web ready", "web.service web ready")
	for _, r := range f.history(seen) {
		if !slices.Contains(lines(r), "web.service web ready") {
			t.Errorf("the unit was %q while it reloaded", lines(r))
		}
	}
}

func TestRestart(t *testing.T) {
	const unit = web + "Restart=always\nExecStop=sh -c 'until test -e /run/done; do sleep 0.02; done'\n"
	f := start(t, never, map[string]string{"web.service": unit + "RestartSec=20ms\n"})
	f.Systemctl("start", "web.service")
	f.waitFor("web.service web ready")
	f.Systemctl("restart", "--no-block", "web.service")
	f.waitFor("web.service web terminating/ready")
	f.Write("/run/done", "")
	f.waitFor("web.service web ready")

	f.WriteUnit("web.service", unit+"RestartSec=1h\n")
	f.Systemctl("daemon-reload")
	f.Systemctl("kill", "--signal=KILL", "web.service")
	f.waitFor() // it waits an hour for its next start
}

func TestDropIns(t *testing.T) {
	f := start(t, never, map[string]string{"web.service": sleeps})
	f.Systemctl("start", "web.service")
	f.WriteUnit("web.service.d/20-portolan.conf", "[Service]\nX-Portolan-Service=web\nX-Portolan-Port-http=8000\n")
	f.Systemctl("daemon-reload")
	f.waitFor("web.service web ready")

	// A later drop-in wins, and an edit counts from the daemon-reload on.
	f.WriteUnit("web.service.d/30-local.conf", "[Service]\nX-Portolan-Service=shop\nX-Portolan-Port-http=\nX-Portolan-Port-admin=9000\nX-Portolan-Weight=7\n")
	f.WriteUnit("web.service.d/20-portolan.conf", "[Service]\nX-Portolan-Service=edited\nX-Portolan-Port-http=8000\n")
	f.Systemctl("daemon-reload")
	r := f.waitFor("web.service shop ready")
	if w := r.Workloads[0]; len(w.Ports) != 1 || w.Ports[0].Name != "admin" || w.Weight == nil || *w.Weight != 7 {
		t.Errorf("the workload is %+v", w)
	}
	f.Remove("/etc/systemd/system/web.service.d")
	f.Systemctl("daemon-reload")
	f.waitFor()
}

// TestEditWithoutReload checks that an edited file has no effect before systemd has read it, although the
// source lists the units meanwhile.
func TestEditWithoutReload(t *testing.T) {
	f := start(t, 20*time.Millisecond, map[string]string{"web.service": web})
	f.Systemctl("start", "web.service")
	f.waitFor("web.service web ready")
	seen := len(f.history(0))
	f.WriteUnit("web.service", strings.ReplaceAll(web, "=web", "=edited"))
	calls := f.calls()
	kittest.Eventually(t, "ten lists", func() error {
		if more := f.calls() - calls; more < 40 {
			return fmt.Errorf("%d calls", more)
		}
		return nil
	})
	if got := f.history(seen); len(got) != 0 {
		t.Errorf("before the daemon-reload there are reports %q", lines(got[0]))
	}
	f.Systemctl("daemon-reload")
	f.waitFor("web.service edited ready")
}

func TestTemplates(t *testing.T) {
	f := start(t, never, map[string]string{
		"web@.service":                  sleeps + "X-Portolan-Service=web\nX-Portolan-Port-http=%i\nX-Portolan-Label-unit=%p\n",
		"web@8002.service.d/label.conf": "[Service]\nX-Portolan-Label-second=yes\n",
	})
	f.Systemctl("start", "web@8001.service", "web@8002.service")
	r := f.waitFor("web@8001.service web ready", "web@8002.service web ready")
	for i, w := range r.Workloads {
		if len(w.Ports) != 1 || int(w.Ports[0].Number) != 8001+i || w.Labels["unit"] != "web" || (w.Labels["second"] == "yes") != (i == 1) {
			t.Errorf("%s has ports %v and labels %v", w.ID, w.Ports, w.Labels)
		}
	}
	f.Systemctl("stop", "web@8001.service")
	f.waitFor("web@8002.service web ready")
}

func TestBadKeys(t *testing.T) {
	f := start(t, never, map[string]string{
		"service.service": sleeps + "X-Portolan-Service=Web_1\n",
		"section.service": "[Unit]\nX-Portolan-Service=web\n" + sleeps,
		"port.service":    web + "X-Portolan-Port-admin=http\nX-Portolan-Sevrice=web\n",
		"case.service":    sleeps + "x-portolan-service=web\n",
	})
	f.Systemctl("start", "service.service", "section.service", "port.service", "case.service")
	r := f.wait("the problems", func(r source.Report) error {
		if len(r.Problems) != 4 || len(r.Workloads) != 1 || len(r.Workloads[0].Problems) != 2 {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	for _, p := range append(slices.Clone(r.Problems), r.Workloads[0].Problems...) {
		if p.Reason != source.ReasonInvalid || !strings.HasSuffix(p.Object, ".service") || p.Field == "" || !strings.Contains(p.Message, p.Field) {
			t.Errorf("problem %+v", p)
		}
	}
	if got := lines(r); !slices.Equal(got, []string{"port.service web ready"}) {
		t.Errorf("workloads are %q", got)
	}
}

func TestAddresses(t *testing.T) {
	f := start(t, never, map[string]string{
		"private.service": web + "PrivateNetwork=yes\n",
		"named.service":   web + "PrivateNetwork=yes\nX-Portolan-Address=10.9.8.7 fd00::7\n",
		"bad.service":     web + "X-Portolan-Address=127.0.0.1\n",
	})
	f.Systemctl("start", "private.service", "named.service", "bad.service")
	r := f.wait("the problems", func(r source.Report) error {
		if len(r.Problems) != 2 || len(r.Workloads) != 1 {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	if p := r.Problems[0]; p.Object != "bad.service" || p.Field != "X-Portolan-Address" || p.Reason != source.ReasonInvalid {
		t.Errorf("problem %+v", p)
	}
	if p := r.Problems[1]; p.Object != "private.service" || p.Reason != source.ReasonNoAddress {
		t.Errorf("problem %+v", p)
	}
	if w := r.Workloads[0]; w.ID != "named.service" || w.HostNetwork || !slices.Equal(w.Addresses, []string{"10.9.8.7", "fd00::7"}) {
		t.Errorf("the workload is %+v", w)
	}
}

// TestReexecution checks that the source sees changes after systemd has executed itself again, which drops
// systemd's connection to the bus.
func TestReexecution(t *testing.T) {
	f := start(t, never, map[string]string{"web.service": web, "other.service": web})
	f.Systemctl("start", "web.service")
	f.waitFor("web.service web ready")
	f.Systemctl("daemon-reexec")
	f.Systemctl("start", "other.service")
	f.waitFor("other.service web ready", "web.service web ready")
	f.Systemctl("stop", "web.service")
	f.waitFor("other.service web ready")
}

// TestBusRestart checks that the source sees changes that were made while the bus was stopped.
func TestBusRestart(t *testing.T) {
	f := start(t, never, map[string]string{"web.service": web, "other.service": web})
	f.Systemctl("start", "web.service")
	f.waitFor("web.service web ready")
	f.Systemctl("stop", "dbus.socket", "dbus.service")
	f.wait("a report with an error", func(r source.Report) error {
		if r.Err == nil || len(r.Workloads)+len(r.Problems) > 0 {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	f.Systemctl("stop", "web.service")
	f.Systemctl("start", "other.service")
	f.Systemctl("start", "dbus.service")
	f.waitFor("other.service web ready")
	f.Systemctl("stop", "other.service")
	f.waitFor()
}

// TestRandomSequence runs random operations on 20 units. After each round it compares the workloads with the
// output of systemctl.
func TestRandomSequence(t *testing.T) {
	const units, rounds, stepsOfRound = 20, 8, 12
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) // #nosec G404 -- for a test
	all := map[string]string{}
	for i := range units {
		all[fmt.Sprintf("web%d.service", i)] = web + "Restart=on-failure\nRestartSec=10ms\nStartLimitBurst=1000\n"
	}
	f := start(t, never, all)
	for range rounds {
		for range stepsOfRound {
			unit := fmt.Sprintf("web%d.service", random.IntN(units))
			switch random.IntN(6) {
			case 0, 1:
				f.Systemctl("start", "--no-block", unit)
			case 2:
				f.Systemctl("stop", "--no-block", unit)
			case 3:
				f.Systemctl("restart", "--no-block", unit)
			case 4:
				// A unit that does not run has nothing to kill.
				_, _ = f.Run("systemctl", "kill", "--signal=KILL", unit)
			case 5:
				f.WriteUnit(unit+".d/service.conf", "[Service]\nX-Portolan-Service="+[]string{"web", "shop", ""}[random.IntN(3)]+"\n")
				f.Systemctl("daemon-reload")
			}
		}
		kittest.Eventually(t, "the workloads that systemctl shows", func() error {
			want := shown(f, "web*.service")
			reports := f.history(0)
			if got := lines(reports[len(reports)-1]); !slices.Equal(got, want) {
				return fmt.Errorf("workloads are\n%q, want\n%q", got, want)
			}
			return nil
		})
	}
}

// shown returns the expected lines of the units that match a pattern, from systemctl and the unit files.
func shown(f *fixture, pattern string) []string {
	f.t.Helper()
	var units []struct{ Unit, Active string }
	out := f.Systemctl("list-units", "--all", "--output=json", pattern)
	if err := json.Unmarshal([]byte(out), &units); err != nil {
		f.t.Fatalf("%v: %s", err, out)
	}
	var want []string
	for _, u := range units {
		text := f.Systemctl("cat", u.Unit)
		_, service, _ := strings.Cut(text[strings.LastIndex(text, "X-Portolan-Service="):], "=")
		service, _, _ = strings.Cut(service, "\n")
		if u.Active == "active" && service != "" {
			want = append(want, u.Unit+" "+service+" ready")
		}
	}
	slices.Sort(want)
	return want
}

// TestRest counts the calls of systemd with 500 units: one list and three properties of each unit at
// the start, one list for a change, and none at rest.
func TestRest(t *testing.T) {
	const units = 500
	f := start(t, never, map[string]string{"web@.service": "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=true\nX-Portolan-Service=web\nX-Portolan-Port-http=8000\n"})
	names := []string{"start", "--no-block"}
	for i := range units {
		names = append(names, fmt.Sprintf("web@%d.service", i))
	}
	f.Systemctl(names...)
	all := func(r source.Report) error {
		if len(r.Workloads) != units {
			return fmt.Errorf("%d workloads", len(r.Workloads))
		}
		return nil
	}
	f.wait("500 workloads", all)
	f.Systemctl("start", names[2]) // systemctl waits for the jobs above, too
	f.quiet()

	before := f.calls()
	f.Systemctl("stop", "web@7.service")
	f.wait("499 workloads", func(r source.Report) error {
		if len(r.Workloads) != units-1 {
			return fmt.Errorf("%d workloads", len(r.Workloads))
		}
		return nil
	})
	f.quiet()
	if more := f.calls() - before; more > 20 {
		t.Errorf("one change of 500 units took %d calls", more)
	}
}

// quiet waits until the source makes no calls for a second.
func (f *fixture) quiet() {
	f.t.Helper()
	last, since := f.calls(), time.Now()
	kittest.Eventually(f.t, "a second without calls", func() error {
		if n := f.calls(); n != last {
			last, since = n, time.Now()
		}
		if rest := time.Since(since); rest < time.Second {
			return fmt.Errorf("the last of %d calls was %s ago", last, rest)
		}
		return nil
	})
}

// TestPrivileges makes the source's calls as an unprivileged user, under the bus policy that systemd installs.
func TestPrivileges(t *testing.T) {
	m := systemdtest.Start(t)
	m.WriteUnit("web.service", web)
	m.Systemctl("start", "web.service")
	const name, manager, unit = "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "/org/freedesktop/systemd1/unit/web_2eservice"
	for call, want := range map[string]string{
		"call " + name + " " + manager + " " + name + ".Manager Subscribe":                                        "",
		"call " + name + " " + manager + " " + name + ".Manager ListUnitsByPatterns asas 0 1 web*":                `"web.service"`,
		"get-property " + name + " " + unit + " " + name + ".Unit FragmentPath DropInPaths NeedDaemonReload":      `s "/etc/systemd/system/web.service"`,
		"get-property " + name + " " + unit + " " + name + ".Service PrivateNetwork NetworkNamespacePath MainPID": "b false",
	} {
		nobody := []string{"--reuid=65534", "--regid=65534", "--clear-groups", "busctl", "--system"}
		if out, err := m.Run("setpriv", append(nobody, strings.Fields(call)...)...); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %q %v", call, out, err)
		}
	}
	if out, err := m.Run("setpriv", "--reuid=65534", "--clear-groups", "busctl", "--system", "call", name, manager, name+".Manager", "ClearJobs"); err == nil {
		t.Errorf("the policy lets anybody do anything: %q", out)
	}
}

// TestSyntax checks that systemd reads unit files and specifiers as this package does, by the description of
// a unit, which systemd returns.
func TestSyntax(t *testing.T) {
	m := systemdtest.Start(t)
	const unit = `web-a\x2db@eu-1.service`
	for i, content := range []string{
		"Description=plain\n",
		"Description=first\n\tDescription = a=b # c \n",
		"Description=one \\\n# Description=comment\n; another\n   two\\\nthree\n",
		"Description=backslash\\\\\n",
		"Description=ends\\",
		"Description=Windows\\\r\nline\r\n",
		"Description=blank after the backslash\\ \nDescribed=1\n",
		"Description=%n %N %p %P %j %J %i %I 100%%\n",
		"Description=a\n[X-Other]\nDescription=b\n",
	} {
		content = "[Service]\nExecStart=true\n[Unit]\n" + content
		m.WriteUnit(unit, content)
		m.Systemctl("daemon-reload")
		want := strings.TrimSuffix(m.Systemctl("show", "--value", "--property=Description", unit), "\n")
		got, err := systemd.LastValue(content, "Unit", "Description", unit)
		if err != nil || got != want {
			t.Errorf("file %d: %q (%v), by systemd %q", i, got, err, want)
		}
	}
}

// TestExamples runs the units of docs/systemd.md with another program, and checks their workloads.
func TestExamples(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "repository", "docs", "systemd.md"))
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, never, map[string]string{"web.service": sleeps})
	for _, block := range strings.Split(string(text), "```ini\n# ")[1:] {
		path, content, _ := strings.Cut(block, "\n")
		content, _, _ = strings.Cut(content, "```")
		f.Write(path, content)
	}
	for _, unit := range []string{"api@", "shop", "cart", "vpn"} {
		f.WriteUnit(unit+".service.d/program.conf", "[Service]\nNetworkNamespacePath=\nExecStart=\nExecStart=sleep infinity\n")
	}
	f.Systemctl("daemon-reload")
	f.Systemctl("start", "web", "api@8001", "api@8002", "shop", "cart", "vpn")
	r := f.wait("six workloads", func(r source.Report) error {
		if len(r.Workloads) != 6 || len(r.Problems) != 0 {
			return fmt.Errorf("%q, problems %+v", lines(r), r.Problems)
		}
		return nil
	})
	var got []string
	for _, w := range r.Workloads {
		if len(w.Problems) != 0 || len(w.Ports) != 1 {
			t.Errorf("%s has problems %+v and ports %v", w.ID, w.Problems, w.Ports)
			continue
		}
		got = append(got, fmt.Sprintf("%s %s %s=%d %s", w.ID, w.Service, w.Ports[0].Name, w.Ports[0].Number, strings.Join(w.Addresses, ",")))
		if (w.Probe != nil) != (w.ID == "shop.service") || (w.Drain == 10*time.Second) != (w.ID == "cart.service") {
			t.Errorf("%s has the probe %v and drains for %s", w.ID, w.Probe, w.Drain)
		}
	}
	want := []string{
		"api@8001.service api http=8001 ", "api@8002.service api http=8002 ", "cart.service cart http=8090 ",
		"shop.service shop http=8080 ", "vpn.service vpn tunnel=1194 10.20.0.7,fd00:20::7", "web.service web http=8000 ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("workloads are\n%q, want\n%q", got, want)
	}
}
