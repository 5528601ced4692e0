package daemon_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"portolan.dev/services/daemon"
)

// TestExports writes exports to a file and to standard output, and reads them. An export that fails must
// leave the file as it was, and no other file.
func TestExports(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "export")
	writing := func(text string, err error) func(io.Writer) error {
		return func(out io.Writer) error {
			_, failed := io.WriteString(out, text)
			return errors.Join(failed, err)
		}
	}
	var stdout, read bytes.Buffer
	broken := errors.New("broken on purpose")
	if err := errors.Join(daemon.WriteExport(file, &stdout, writing("first", nil)), daemon.WriteExport("-", &stdout, writing("second", nil))); err != nil {
		t.Fatal(err)
	}
	if err := daemon.WriteExport(file, &stdout, writing("third", broken)); !errors.Is(err, broken) {
		t.Errorf("a failed export: %v", err)
	}
	reading := func(in io.Reader) error { _, err := read.ReadFrom(in); return err }
	if err := errors.Join(daemon.ReadExport(file, nil, reading), daemon.ReadExport("-", strings.NewReader(" and stdin"), reading)); err != nil {
		t.Fatal(err)
	}
	if stdout.String() != "second" || read.String() != "first and stdin" {
		t.Errorf("written is %q, read is %q", stdout.String(), read.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("files are %v, %v", left, err)
	}
}
