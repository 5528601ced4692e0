package kerneltest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	qemu = "qemu-system-x86_64"
	// kernelEnv names a directory with boot/vmlinuz-* and lib/modules that is used instead of the
	// one in the user's cache.
	kernelEnv = "PORTOLAN_TEST_KERNEL"
	// grace is the time for booting and powering off, in addition to the tests' time.
	grace = 2 * time.Minute
)

// machine is a kernel that can be booted.
type machine struct {
	qemu   string
	kernel string   // the bzImage
	tree   string   // root of its modules
	binary string   // the test binary
	names  []string // modules to load
	// programs are the names of programs of this machine that the guest gets.
	programs []string
}

// newMachine finds the files for booting, or returns an error that names the missing one.
func newMachine() (*machine, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("test binaries for %s/%s cannot run in the guest, which is linux/amd64", runtime.GOOS, runtime.GOARCH)
	}
	path, err := exec.LookPath(qemu)
	if err != nil {
		return nil, fmt.Errorf("%s is missing: run make test-tools, or install the package qemu-system-x86", qemu)
	}
	dir, err := kernelDir()
	if err != nil {
		return nil, err
	}
	images, _ := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*")) // the pattern is valid
	if len(images) == 0 {
		return nil, fmt.Errorf("no kernel in %s: run make test-tools (it fetches the one of Debian's linux-image-cloud-amd64)", dir)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	static, err := isStatic(self)
	if err != nil {
		return nil, err
	}
	if !static {
		return nil, errors.New("the guest has no shared libraries for a test binary with cgo: build it with CGO_ENABLED=0")
	}
	release := strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-")
	return &machine{
		qemu: path, kernel: images[0], tree: filepath.Join(dir, "lib", "modules", release),
		binary: self, names: modules,
	}, nil
}

func kernelDir() (string, error) {
	if dir := os.Getenv(kernelEnv); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place for a kernel: %w; name one in %s", err, kernelEnv)
	}
	return filepath.Join(cache, "portolan", "kernel"), nil
}

// testTimeout returns the timeout of the tests themselves.
func testTimeout(args []string) time.Duration {
	timeout := 10 * time.Minute
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if d, err := time.ParseDuration(value); name == "test.timeout" && err == nil && d > 0 {
			timeout = d
		}
	}
	return timeout
}

// run boots the machine, relays the output of the tests and returns their exit code. Only one
// machine runs at a time on a host, because two would slow each other down until tests fail.
func (m *machine) run(args []string, timeout time.Duration) (int, error) {
	unlock, err := lock(filepath.Join(os.TempDir(), fmt.Sprintf("portolan-kerneltest-%d.lock", os.Getuid())))
	if err != nil {
		return 1, err
	}
	defer unlock()
	dir, err := os.MkdirTemp("", "kerneltest-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if err := m.writeInitrd(filepath.Join(dir, "initrd"), args); err != nil {
		return 1, err
	}
	return m.boot(dir, timeout+grace)
}

// lock waits until no other process holds the file.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

func (m *machine) boot(dir string, timeout time.Duration) (int, error) {
	console := filepath.Join(dir, "console")
	out, in, err := os.Pipe()
	if err != nil {
		return 1, err
	}
	defer out.Close()
	cmd := exec.Command(m.qemu, m.options(dir, console)...)
	// The process has a group of its own, so that a timeout leaves nothing running. No machine
	// outlives the process that waits for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Stdout = in
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	// Pdeathsig refers to the thread that starts the process, so that thread must stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	in.Close()
	if err != nil {
		return 1, err
	}
	timer := time.AfterFunc(timeout, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) //nolint:errcheck // it may be gone
	defer timer.Stop()
	code, copyErr := relay(os.Stdout, out)
	waitErr := cmd.Wait()
	if copyErr == nil {
		return code, nil
	}
	log, _ := os.ReadFile(console) // as far as it was written
	return 1, fmt.Errorf("%w (%v)\n%s%s", copyErr, waitErr, complaints.String(), lastLines(log, 60))
}

// options returns the options of QEMU. There is only one processor, because with two the guest
// sometimes hangs.
func (m *machine) options(dir, console string) []string {
	appended := "console=ttyS0 quiet nokaslr mitigations=off no5lvl random.trust_cpu=on panic=-1 reboot=t " +
		"tsc=reliable no_timer_check nowatchdog 8250.nr_uarts=2 audit=0 selinux=0 apparmor=0 " +
		"rcupdate.rcu_expedited=1 cryptomgr.notests=1"
	if khz := clockRate(); khz > 0 { // the guest's own measurement fails on a busy host
		appended += " tsc_early_khz=" + strconv.Itoa(khz)
	}
	return []string{
		"-M", "microvm,acpi=off,pic=on,pit=on,rtc=on,isa-serial=off", "-accel", "tcg", "-cpu", "max,-la57,-erms,-fsrm",
		"-smp", "1", "-m", "1536", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", m.kernel, "-initrd", filepath.Join(dir, "initrd"),
		"-chardev", "file,id=con,path=" + console, "-device", "isa-serial,chardev=con,index=0",
		"-chardev", "stdio,id=o,signal=off", "-device", "isa-serial,chardev=o,index=1",
		"-append", appended,
	}
}

// trailer ends the output of a guest. The exit code and a newline follow.
const trailer = "\x00exit "

// relay copies the output before the trailer and returns the exit code after it.
func relay(w io.Writer, r io.Reader) (int, error) {
	var pending []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		pending = append(pending, buf[:n]...)
		if i := bytes.IndexByte(pending, trailer[0]); i >= 0 {
			if _, werr := w.Write(pending[:i]); werr != nil {
				return 1, werr
			}
			pending = pending[i:]
			if end := bytes.IndexByte(pending, '\n'); end >= 0 {
				return exitCode(string(pending[:end]))
			}
		} else if len(pending) > 0 {
			if _, werr := w.Write(pending); werr != nil {
				return 1, werr
			}
			pending = pending[:0]
		}
		if err != nil {
			return 1, errors.New("the guest ended without an exit code")
		}
	}
}

func exitCode(line string) (int, error) {
	code, err := strconv.Atoi(strings.TrimPrefix(line, trailer))
	if err != nil {
		return 1, fmt.Errorf("the guest ended with %q", line)
	}
	return code, nil
}

func lastLines(text []byte, n int) string {
	lines := strings.Split(strings.ReplaceAll(string(text), "\r", ""), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
