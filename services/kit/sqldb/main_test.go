package sqldb_test

import (
	"os"
	"testing"

	"portolan.dev/services/kit/kittest"
)

func TestMain(m *testing.M) { os.Exit(kittest.Main(m)) }
