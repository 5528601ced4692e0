package dnssvc_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	dnsv1 "portolan.dev/api/dns/v1"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/guard/guardtest"

	"portolan.dev/dnssvc/internal/dnstest"
)

// TestAServiceThatPanicsEndsNothing lets each step for one service panic. The other one is answered, and this one is
// answered as before, until a change of it succeeds.
func TestAServiceThatPanicsEndsNothing(t *testing.T) {
	for _, step := range []string{"object", "names"} {
		t.Run(step, func(t *testing.T) {
			log := changestest.New(t)
			log.Put(dnstest.Namespace("default"), dnstest.Service("default/web", "10.96.0.1", "80:http"), dnstest.Service("default/bad", "10.96.0.9", "80:http"))
			var w *guardtest.World
			r := start(t, testConfig(t, "127.53.240.9"), log, func(host app.Host) { w = guardtest.Of(t, host) })
			bad, web := "bad.default"+loc, "web.default"+loc
			r.eventually(t, bad, dns.TypeA, "NOERROR\n  "+bad+" 5 IN A 10.96.0.9")
			w.BreakName("bad", step)
			log.Put(dnstest.Service("default/bad", "10.96.0.8", "80:http"), dnstest.Service("default/web", "10.96.0.2", "80:http"))
			r.eventually(t, web, dns.TypeA, "NOERROR\n  "+web+" 5 IN A 10.96.0.2")
			w.Await("Service default/bad")
			r.eventually(t, bad, dns.TypeA, "NOERROR\n  "+bad+" 5 IN A 10.96.0.9")
			r.ready(t)
			said := func(line string) bool { return strings.Contains(line, "not published, because that panicked") }
			if got := r.query(t, &dnsv1.QueryRequest{Name: "bad", Type: "A"}); slices.ContainsFunc(got.GetExplanation(), said) != (step == "names") {
				t.Errorf("explained by %q", got.GetExplanation())
			}
			w.Mend()
			log.Put(dnstest.Service("default/bad", "10.96.0.7", "80:http"))
			r.eventually(t, bad, dns.TypeA, "NOERROR\n  "+bad+" 5 IN A 10.96.0.7")
			w.Await()
		})
	}
}
