package audit_test

import (
	"fmt"
	"math"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"portolan.dev/services/kit/kittest"
)

func makePipe(path string) error { return syscall.Mkfifo(path, 0o600) }

// limitFiles limits the size of files that this process writes, so that a write ends in the middle
// of a line as on a full disk. The function that it returns ends the limit.
func limitFiles(t *testing.T, size uint64) (end func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	set := func(limit syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
	}
	set(syscall.Rlimit{Cur: size, Max: before.Max})
	return func() { set(before) }
}

// TestDiskFillsInTheMiddleOfALine fills the disk, and then makes room. All lines in the file must
// be whole, and the lost ones counted.
func TestDiskFillsInTheMiddleOfALine(t *testing.T) {
	f := open(t, nil)
	const recorded = 1000
	end := limitFiles(t, 10_001)
	for n := range recorded {
		f.Record(sample(fmt.Sprint(n)))
	}
	kittest.Eventually(t, "a line that is lost", func() error {
		info, err := os.Stat(f.path)
		if err == nil && (f.dropped("disk") == 0 || info.Size() > 10_001) {
			err = fmt.Errorf("nothing is lost, the file has %d bytes", info.Size())
		}
		return err
	})
	end()
	kittest.Eventually(t, "a line after the outage", func() error {
		f.Record(sample("after"))
		for _, l := range read(t, f.path) {
			if l.Name == "after" {
				return nil
			}
		}
		return fmt.Errorf("not there yet")
	})
	f.Close()
	written, said := 0, int64(math.MinInt64)
	for _, l := range read(t, f.path) {
		if l.Name != "" && l.Name != "after" {
			written++
		}
		if l.Cause == "disk" {
			said = l.Dropped
		}
	}
	if lost := f.dropped("disk"); written == 0 || int64(lost) != said {
		t.Errorf("%d lines are written, %d counted as lost, and the log says %d", written, lost, said)
	}
}
