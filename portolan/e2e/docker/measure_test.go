package docker

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"portolan.dev/registrar/dockertest"
	"portolan.dev/services/kit/kittest"
)

var (
	measure = flag.Bool("measure", false, "measure with many containers, which takes minutes")
	many    = flag.Int("containers", 500, "number of containers to measure with")
)

// atOnce is the number of containers that are started at once. Docker 20.10 hangs when it is asked for
// many more.
const atOnce = 8

// TestMeasure measures a registrar with many containers: the time from its start until all are registered,
// the time of a later start, and its CPU time at rest. The times are compared with docker ps and docker
// inspect of the same containers.
func TestMeasure(t *testing.T) {
	if !*measure {
		t.Skip("allowed: measures only when asked to, with -measure")
	}
	lab := dockertest.New(t, "x")
	startMany(lab, *many)
	asked := seconds(func() {
		ids := strings.Fields(lab.Docker("ps", "-q", "--no-trunc", "--filter", "name="+lab.Mark))
		lab.Docker(append([]string{"inspect"}, ids...)...)
	})
	var w *world
	first := seconds(func() {
		w = start(t, lab, "/var/run/docker.sock")
		w.awaitRegistered(*many)
	})
	w.Stop()
	later := seconds(func() {
		w.Start()
		w.awaitRegistered(*many)
	})
	const rest = 30 * time.Second
	before := cpu(t, w.registrar.PID())
	<-time.After(rest) // no event arrives in this time
	atRest := (cpu(t, w.registrar.PID()) - before) / rest.Seconds()
	fmt.Printf("containers: %d\nasked_seconds: %.2f (docker ps and docker inspect)\nfirst_seconds: %.2f, %.1f of asked (with the start of all other daemons)\nlater_seconds: %.2f, %.1f of asked\nrest_cpu: %.4f of a core\n",
		*many, asked, first, first/asked, later, later/asked, atRest)
}

// startMany starts containers that only sleep.
func startMany(lab *dockertest.Lab, n int) {
	var starting sync.WaitGroup
	for first := range atOnce {
		starting.Go(func() {
			for i := first; i < n; i += atOnce {
				lab.Run(strconv.Itoa(i), "0", "--network", lab.Networks[0])
			}
		})
	}
	starting.Wait()
}

// awaitRegistered waits until the registrar has registered n containers.
func (w *world) awaitRegistered(n int) {
	w.Helper()
	kittest.Eventually(w.T, fmt.Sprintf("%d pods", n), func() error {
		status, err := w.status()
		if err != nil {
			return err
		}
		registered := 0
		for _, source := range status.GetSources() {
			for _, one := range source.GetWorkloads() {
				if one.GetPod() != "" {
					registered++
				}
			}
		}
		if registered != n {
			return fmt.Errorf("%d are registered", registered)
		}
		return nil
	})
}

func seconds(of func()) float64 {
	begin := time.Now()
	of()
	return time.Since(begin).Seconds()
}

// cpu returns the CPU time of a process in seconds.
func cpu(t *testing.T, pid int) float64 {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name of the program may have spaces
	fields := strings.Fields(rest)
	user, userErr := strconv.ParseFloat(fields[11], 64)
	system, systemErr := strconv.ParseFloat(fields[12], 64)
	if userErr != nil || systemErr != nil {
		t.Fatal(userErr, systemErr)
	}
	const ticks = 100 // per second, on all Linux of today
	return (user + system) / ticks
}
