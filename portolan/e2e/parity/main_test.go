package parity

import (
	"flag"
	"testing"

	"portolan.dev/portolan/e2e/labtest"
)

// atOnce is the number of descriptions that run at the same time. They mostly wait.
const atOnce = "12"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil { // a flag of the command line overrides it
		panic(err)
	}
	labtest.Main(m)
}
