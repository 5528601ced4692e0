package kerneltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// initGuest is the first process of the guest. It prepares the guest for the tests, runs them as a
// child, reports the child's exit code and powers off. It does not return.
func initGuest() {
	code, err := guest()
	out, openErr := os.OpenFile("/dev/ttyS1", os.O_WRONLY, 0)
	if openErr == nil {
		if err != nil {
			fmt.Fprintln(out, "kerneltest: guest:", err)
		}
		fmt.Fprintf(out, "%s%d\n", trailer, code)
		unix.IoctlSetInt(int(out.Fd()), unix.TCSBRK, 1) //nolint:errcheck // waits until all is sent
	} else {
		fmt.Fprintln(os.Stderr, "kerneltest: guest:", err, openErr) // the kernel's console
	}
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) //nolint:errcheck // there is no way left to report it
	for {
		time.Sleep(time.Hour)
	}
}

func guest() (int, error) {
	if err := mountAll(); err != nil {
		return 1, err
	}
	out, err := os.OpenFile("/dev/ttyS1", os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return 1, err
	}
	defer out.Close()
	if err := makeRaw(out); err != nil {
		return 1, err
	}
	text, err := os.ReadFile("/" + jobPath)
	if err != nil {
		return 1, err
	}
	var todo job
	if err := json.Unmarshal(text, &todo); err != nil {
		return 1, err
	}
	for _, name := range todo.Modules {
		if err := loadModule("/" + modulesDir + "/" + name); err != nil {
			return 1, fmt.Errorf("module %s: %w", name, err)
		}
	}
	if err := loopbackUp(); err != nil {
		return 1, err
	}
	return runTests(&todo, out)
}

func mountAll() error {
	for _, m := range []struct{ kind, at, options string }{
		{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"devtmpfs", "/dev", ""}, {"tmpfs", "/run", ""},
		{"tmpfs", "/tmp", "size=8g"}, // servers reserve more memory than they use
	} {
		if err := unix.Mount(m.kind, m.at, m.kind, 0, m.options); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	return nil
}

// makeRaw stops the terminal from changing its output.
func makeRaw(f *os.File) error {
	t, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return err
	}
	t.Oflag, t.Iflag, t.Lflag = 0, 0, 0
	return unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, t)
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

// runTests runs the test binary once more, as a child, so that its result is known even if it
// crashes.
func runTests(todo *job, out *os.File) (int, error) {
	cmd := exec.Command("/"+initPath, todo.Args...)
	cmd.Args[0] = "guest.test"
	cmd.Env = append(todo.Env, childEnv+"=1")
	cmd.Dir = "/tmp"
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode(), nil
	}
	return 1, err
}
