package kerneltest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m, "ipvsadm") }

func TestTheGuestHasItsOwnKernel(t *testing.T) {
	Need(t)
	for _, path := range []string{"/proc/net/ip_vs", "/proc/sys/net/ipv4/vs", "/proc/sys/net/netfilter/nf_conntrack_max"} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestProgramsRunInTheGuest checks that a program of the machine runs in the guest, with its libraries.
func TestProgramsRunInTheGuest(t *testing.T) {
	NeedProgram(t, "ipvsadm")
	out, err := exec.Command("ipvsadm", "-Ln").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "IP Virtual Server") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestNative checks that native returns the result of the probe if there are namespaces.
func TestNative(t *testing.T) {
	Need(t)
	if err := native(func() error { return nil }); err != nil {
		t.Error(err)
	}
	no := errors.New("no")
	if err := native(func() error { return no }); !errors.Is(err, no) {
		t.Errorf("got %v", err)
	}
}

func TestArgsForTheGuest(t *testing.T) {
	got := guestArgs([]string{"-test.v=true", "-test.testlogfile=/x", "-test.run=A", "-test.coverprofile=c", "plain"})
	if want := []string{"-test.v=true", "-test.run=A", "plain"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := testTimeout([]string{"-test.timeout=90s"}); got != 90*time.Second {
		t.Errorf("timeout %s", got)
	}
}

func TestRelay(t *testing.T) {
	for _, c := range []struct {
		in, out string
		code    int
		ok      bool
	}{
		{"PASS\n" + trailer + "0\n", "PASS\n", 0, true},
		{"FAIL\n" + trailer + "2\n", "FAIL\n", 2, true},
		{"panic", "panic", 1, false},
		{"PASS\n" + trailer + "0", "PASS\n", 1, false},
		{"PASS\n" + trailer + "x\n", "PASS\n", 1, false},
	} {
		var out bytes.Buffer
		code, err := relay(&out, strings.NewReader(c.in))
		if code != c.code || (err == nil) != c.ok || out.String() != c.out {
			t.Errorf("%q: got %d, %v, output %q", c.in, code, err, out.String())
		}
	}
}
