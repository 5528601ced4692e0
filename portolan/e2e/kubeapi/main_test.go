package kubeapi

import (
	"testing"

	"portolan.dev/services/kit/kittest"
)

func TestMain(m *testing.M) { kittest.Main(m) }
