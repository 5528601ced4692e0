package flaky

import (
	"os"
	"testing"
)

// Fails when the file that TESTRUN_MARK names is not there, and makes it.
func TestSecondTime(t *testing.T) {
	mark := os.Getenv("TESTRUN_MARK")
	if _, err := os.Stat(mark); err != nil {
		os.WriteFile(mark, nil, 0o600)
		t.Fatal("the first time")
	}
}
