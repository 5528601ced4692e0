package announce

import (
	"flag"
	"os"
	"testing"
)

// checks is the number of random histories of each property. Faults that need several coincidences,
// such as a guard without room for the clocks, are found in some hundreds.
const checks = "1000"

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", checks); err != nil { // a flag of the command line overrides it
		panic(err)
	}
	os.Exit(m.Run())
}
