package server_test

import (
	"testing"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/soak"
	"portolan.dev/dnssvc/internal/zone"
	"portolan.dev/services/object"
)

// TestAnswersUnderChanges checks, while services change, that every answer was right at some moment
// between question and answer. The benchmark does the same a million times.
func TestAnswersUnderChanges(t *testing.T) {
	table := dnstest.Table(t, zoneConfig())
	addr, _ := serve(t, table)
	model := soak.NewModel("cluster.local.", 20)
	revision := uint64(1)
	apply := func(put, remove []object.Object) error {
		var list []zone.Change
		for _, o := range put {
			list = append(list, zone.Change{Object: o})
		}
		for _, o := range remove {
			list = append(list, zone.Change{Object: o, Deleted: true})
		}
		revision++
		return table.Apply(list, revision)
	}
	if err := apply(model.Objects(), nil); err != nil {
		t.Fatal(err)
	}
	report, err := soak.Run(t.Context(), soak.Config{Model: model, Addr: addr, Queries: 10000, Clients: 8, Apply: apply})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", report)
}
