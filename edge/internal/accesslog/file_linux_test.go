package accesslog

import (
	"os"
	"testing"
)

func TestAFullDiskLosesWholeLines(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	full := &file{current: f}
	if lost, err := full.append([]byte("a\nb\n")); lost != 2 || err == nil || full.size != 0 {
		t.Errorf("%d lines lost, size %d: %v", lost, full.size, err)
	}
}
