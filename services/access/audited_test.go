package access_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"portolan.dev/services/access"
)

// TestAudited compares the methods that are always recorded in the audit log with a list. A new
// method that only reads belongs into the table of reads.
func TestAudited(t *testing.T) {
	var list strings.Builder
	for _, service := range slices.Sorted(maps.Keys(access.Methods())) {
		for _, method := range slices.Sorted(maps.Keys(access.Methods()[service])) {
			if full := "/" + service + "/" + method; access.Audited(full) {
				fmt.Fprintln(&list, full)
			}
		}
	}
	golden := filepath.Join("testdata", "audited.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(list.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if list.String() != string(want) {
		t.Errorf("the audited methods are others; look at them and write them with -update:\n%s", list.String())
	}
	if !access.Audited("/unknown.Service/Method") {
		t.Error("calls of unknown methods are not recorded")
	}
}
