package explain

import (
	"strings"
	"testing"
)

func TestConclude(t *testing.T) {
	broken := Step{Title: "selector and pods"}
	broken.setState(Broken, "label a pod")
	broken.setState(Unknown, "a smaller trouble does not hide a larger one")
	silent := Step{Title: "names"}
	silent.setState(Unknown, "start dnssvc")
	for name, c := range map[string]struct {
		steps   []Step
		works   bool
		verdict string
	}{
		"whole":           {[]Step{{Title: "service", State: OK}}, true, "the chain is whole"},
		"first break":     {[]Step{{State: OK}, broken, {Title: "nodes", State: Broken}}, false, "the chain breaks at: selector and pods; label a pod"},
		"cannot be asked": {[]Step{silent}, true, "nothing is broken as far as could be seen; not seen: names"},
	} {
		t.Run(name, func(t *testing.T) {
			report := Report{Service: "default/web", Steps: c.steps}
			report.setVerdict()
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
