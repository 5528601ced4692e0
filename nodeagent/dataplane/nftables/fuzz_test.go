package nftables

import (
	"testing"
	"time"

	"portolan.dev/nodeagent/dataplane/kernel"
)

// FuzzClass parses any name of a chain, and checks that the chain of the parsed class has this name. So no two
// names stand for one class.
func FuzzClass(f *testing.F) {
	for _, c := range []class{
		{}, {Settings: kernel.Settings{Scheduler: "rr", Affinity: 3 * time.Hour, Closed: true}, slots: 10, outside: true, lane: 3},
	} {
		f.Add(c.chain())
	}
	for _, name := range []string{"", "rr-0-1-0-any-open", "rr-0-1-0-any-open-0-0", "rr-+1-01-0-any-open-0", "rr-99999999999-1-0-any-open-0", "rr-0-1-0-all-open-0"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		c, err := parseClass(name)
		if err == nil && (c.chain() != name || c.slots < 0 || c.lane < 0 || c.Affinity < 0) {
			t.Fatalf("%q became %+v with the chain %q", name, c, c.chain())
		}
	})
}
