package dataplanetest_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
)

var update = flag.Bool("update", false, "write the table of differences into the README")

var differences = regexp.MustCompile(`(?m)^\| \| ipvs \|.*\n(?:\|.*\n)+`)

// TestReadmeTellsTheDifferences checks that the README's table of differences between the planes
// equals the traits that the scenarios use.
func TestReadmeTellsTheDifferences(t *testing.T) {
	readme := filepath.Join("..", "..", "README.md")
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	want := dataplanetest.Table([]string{"ipvs", "nftables", "userspace"},
		[]dataplanetest.Traits{dataplanetest.IPVS, dataplanetest.Nftables, dataplanetest.Userspace})
	if *update {
		text = differences.ReplaceAllLiteral(text, []byte(want))
		if err := os.WriteFile(readme, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := differences.Find(text); string(got) != want {
		t.Errorf("the table of differences (go test ./dataplane/dataplanetest -update writes it) is\n%s\nwant\n%s", got, want)
	}
}
