package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"portolan.dev/registry/store/storetest"
)

// envChild is the environment variable that makes the test binary run the process to be killed. Its
// value is the folder of the store.
const envChild = "PORTOLAN_TEST_SQLITE_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(envChild); dir != "" {
		os.Exit(child(dir))
	}
	os.Exit(m.Run())
}

// child writes to the store until it is killed, and prints the outcome of each write.
func child(dir string) int {
	s, err := Open(context.Background(), Config{Dir: dir})
	if err != nil {
		println(err.Error())
		return 1
	}
	var mu sync.Mutex
	told := json.NewEncoder(os.Stdout)
	storetest.Load(context.Background(), s, strconv.Itoa(os.Getpid()), 32, &storetest.Ledger{}, func(e storetest.Entry) bool {
		mu.Lock()
		defer mu.Unlock()
		return e.Err != nil || told.Encode(e) != nil
	})
	return 1 // not reached: the process is killed before
}

// TestAKilledProcessLosesNothingItAcknowledged kills a writing process, three times on one store.
func TestAKilledProcessLosesNothingItAcknowledged(t *testing.T) {
	dir := t.TempDir()
	ledger := &storetest.Ledger{}
	for range 3 {
		killWriter(t, dir, ledger)
		s := openStore(t, dir)
		state, err := storetest.CheckInvariants(t.Context(), s)
		if err := errors.Join(err, ledger.Verify(state, false), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// killWriter starts a child, kills it after 300 acknowledgements, and enters the received outcomes
// in the ledger.
func killWriter(t *testing.T, dir string, ledger *storetest.Ledger) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"="+dir)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	told := json.NewDecoder(out)
	n := 0
	for ; ; n++ {
		if n == 300 {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
		var e storetest.Entry
		if err := told.Decode(&e); err != nil { // truncated, in the middle of an entry or between two
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Error(err)
			}
			break
		}
		ledger.Add(e)
	}
	_ = cmd.Wait() // the error is that it was killed
	if n < 300 {
		t.Fatalf("the writer ended by itself after %d writes", n)
	}
}
