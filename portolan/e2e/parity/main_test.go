package parity

import (
	"flag"
	"testing"

	"portolan.dev/portolan/e2e/labtest"
)

// atOnce is how many descriptions run at the same time. They wait for most of their time.
const atOnce = "12"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil { // a flag of the command line still wins
		panic(err)
	}
	labtest.Main(m)
}
