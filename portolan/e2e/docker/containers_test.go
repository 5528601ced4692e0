package docker

import (
	"testing"
	"time"

	"portolan.dev/registrar/dockertest"
	"portolan.dev/services/kit/kittest"
)

// machineSocket is where the machine's engine listens.
const machineSocket = "/var/run/docker.sock"

// sequenceTime is how long containers come and go.
var sequenceTime = kittest.Exploring(15 * time.Second)

// TestContainersComeAndGo compares the endpoints with docker inspect after rounds of random operations on
// containers, in which the registrar is killed and started again.
func TestContainersComeAndGo(t *testing.T) {
	w := start(t, dockertest.New(t, "x", "y"), machineSocket)
	s := w.lab.Sequence(w)
	for deadline := time.Now().Add(sequenceTime); time.Now().Before(deadline); {
		s.Round()
		w.rests()
	}
	t.Logf("%d containers, %d operations, %d deaths of the registrar", len(w.lab.Containers()), s.Operations, s.Restarts)
}
