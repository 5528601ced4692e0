package docker

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"syscall"
	"testing"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/registrar/dockertest"
)

// ownEngine is an engine that the test kills, stops and starts.
type ownEngine struct {
	*dockertest.Engine
	t       *testing.T
	in      *topology.Namespace
	process *labtest.Process
}

// startEngine starts an engine in a namespace. Its containers keep running when it stops.
func startEngine(t *testing.T) *ownEngine {
	t.Helper()
	e := &ownEngine{Engine: dockertest.NewEngine(t, "--live-restore", "--iptables=false"), t: t, in: topology.New(t, "engine")}
	e.start()
	return e
}

func (e *ownEngine) start() {
	e.t.Helper()
	e.process = labtest.Run(e.t, "dockerd", e.Command(), e.in)
	e.Await()
}

// TestTheEngineRestarts kills the engine, which leaves its containers alone, and stops it from answering.
// Pods stay while it is away, also if the registrar starts meanwhile. The pods of containers that have ended
// go when it is back, and the others are the same as before.
func TestTheEngineRestarts(t *testing.T) {
	t.Parallel() // it waits most of the time
	e := startEngine(t)
	w := start(t, e.Lab("x"), e.Socket)
	for _, name := range []string{"a", "b"} {
		w.lab.Run(name, "0", "--network", w.lab.Networks[0])
	}
	w.rests()
	a := fmt.Sprintf("%s:%d ready", w.lab.Inspect()["a"].Address, dockertest.Port)
	pids := map[string]int{"a": w.pid("a"), "b": w.pid("b")}
	before := w.pods()
	if len(before) != 2 {
		t.Fatalf("the pods are %v, want 2", before)
	}

	e.process.Kill()
	w.awaitConnected(false)
	end(t, pids["b"])
	w.Stop()
	w.Start()
	w.awaitConnected(false)
	if now := w.pods(); !maps.Equal(now, before) {
		t.Errorf("without the engine the pods are %v, and were %v", now, before)
	}
	e.start()
	t.Cleanup(w.lab.Remove)
	w.await(a)
	for uid := range w.pods() {
		if !before[uid] {
			t.Errorf("the pod %s is none of those before the engine was killed, %v", uid, before)
		}
	}

	e.process.Pause()
	before = w.pods()
	w.awaitConnected(false)
	end(t, pids["a"])
	if now := w.pods(); !maps.Equal(now, before) {
		t.Errorf("while the engine hangs the pods are %v, and were %v", now, before)
	}
	e.process.Continue()
	w.awaitConnected(true)
	w.await()
}

// awaitConnected waits until the registrar says that the engine answers, or does not.
func (w *world) awaitConnected(want bool) {
	w.Helper()
	w.eventually(fmt.Sprintf("connected %v", want), func() error {
		status, err := w.status()
		if err != nil {
			return err
		}
		if sources := status.GetSources(); len(sources) != 1 || sources[0].GetConnected() != want || !want && sources[0].GetError() == "" {
			return errors.New("not yet")
		}
		return nil
	})
}

// pods returns the UIDs of the pods of the lab's containers.
func (w *world) pods() map[string]bool {
	w.Helper()
	res, err := registryv1.NewPodServiceClient(w.conn).ListPods(w.Context(), &registryv1.ListPodsRequest{Namespace: w.lab.Mark})
	if err != nil {
		w.Fatal(err)
	}
	uids := map[string]bool{}
	for _, pod := range res.GetPods() {
		uids[pod.GetMetadata().GetUid()] = true
	}
	return uids
}

// pid returns the process of a container.
func (w *world) pid(name string) int {
	w.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(w.lab.Docker("inspect", "-f", "{{.State.Pid}}", w.lab.Name(name))))
	if err != nil || pid <= 1 {
		w.Fatalf("the process of %s is %d, %v", name, pid, err)
	}
	return pid
}

// end kills the process of a container without the engine.
func end(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
