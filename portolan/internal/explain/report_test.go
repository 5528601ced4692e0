package explain

import (
	"strings"
	"testing"
)

// TestVerdictClaimsOnlyWhatIsKnown checks the verdict about links that are broken, not seen, or as planned.
func TestVerdictClaimsOnlyWhatIsKnown(t *testing.T) {
	broken := Step{Title: "selector and pods"}
	broken.setState(Broken, "label a pod")
	broken.setState(Unknown, "a smaller trouble does not hide a larger one")
	silent := Step{Title: "names"}
	silent.setState(Unknown, "start dnssvc")
	for name, c := range map[string]struct {
		steps    []Step
		forwards bool
		works    bool
		verdict  string
	}{
		"a name only":     {[]Step{{Title: "service", State: OK}}, false, true, "no link is broken"},
		"backends":        {[]Step{{Title: "service", State: OK}}, true, true, "no link is broken; no connection was made, so it is not known whether a program listens at each backend"},
		"first break":     {[]Step{{State: OK}, broken, {Title: "nodes", State: Broken}}, true, false, "the chain breaks at: selector and pods; label a pod"},
		"cannot be asked": {[]Step{silent}, false, true, "nothing is broken as far as could be seen; not seen: names"},
	} {
		t.Run(name, func(t *testing.T) {
			report := Report{Service: "default/web", Steps: c.steps}
			report.setVerdict(c.forwards)
			if report.Works != c.works || report.Verdict != c.verdict {
				t.Errorf("works %v, %q", report.Works, report.Verdict)
			}
			var b strings.Builder
			if err := report.Write(&b); err != nil || !strings.Contains(b.String(), c.verdict) {
				t.Errorf("%v:\n%s", err, b.String())
			}
		})
	}
}
