package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// tester runs tests, with or without a mutant.
type tester struct {
	root string // the folder of the workspace
	env  []string
	// grace is the time that tests with a mutant have in addition to twice their time without one.
	grace time.Duration
}

// verdict is the result of a run of tests.
type verdict struct {
	outcome string
	output  string
	took    time.Duration
}

// test runs the tests of a package with a mutant, or on the unchanged code if m is nil.
func (t *tester) test(ctx context.Context, pkg string, m *mutant, limit time.Duration) (verdict, error) {
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return verdict{}, err
	}
	defer os.RemoveAll(dir)
	// -short is not set, because a skipped test kills no mutant.
	args := []string{"test", "-vet=off", "-count=1", "-failfast", "-timeout", limit.String()}
	if m != nil {
		overlay, err := writeOverlay(dir, *m)
		if err != nil {
			return verdict{}, err
		}
		args = append(args, "-overlay", overlay)
	}
	return t.run(ctx, append(args, "./"+pkg), limit)
}

// buildTime is the time that the go command has in addition to the tests.
const buildTime = 10 * time.Minute

func (t *tester) run(ctx context.Context, args []string, limit time.Duration) (verdict, error) {
	limited, cancel := context.WithTimeout(ctx, limit+buildTime)
	defer cancel()
	cmd := exec.CommandContext(limited, "go", args...)
	cmd.Dir, cmd.Env = t.root, append(os.Environ(), t.env...)
	// Kill the whole process group, because a mutant may leave processes behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // usually none is left
	}
	v := verdict{output: out.String(), took: time.Since(began)}
	exit := (*exec.ExitError)(nil)
	switch {
	case ctx.Err() != nil:
		return v, ctx.Err()
	case err == nil:
		v.outcome = survived
	case bytes.Contains(out.Bytes(), []byte("[build failed]")), bytes.Contains(out.Bytes(), []byte("[setup failed]")):
		v.outcome = invalid
	case limited.Err() != nil, errors.Is(err, exec.ErrWaitDelay), bytes.Contains(out.Bytes(), []byte("panic: test timed out after ")):
		v.outcome = timeout
	case errors.As(err, &exit):
		v.outcome = killed
	default:
		return v, err
	}
	return v, nil
}

// writeOverlay writes the files for -overlay, and returns the name of the overlay file.
func writeOverlay(dir string, m mutant) (string, error) {
	text, err := m.apply()
	if err != nil {
		return "", err
	}
	path, err := filepath.Abs(m.path)
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(dir, m.File), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(changed, text, 0o600), os.WriteFile(overlay, list, 0o600)); err != nil {
		return "", err
	}
	return overlay, nil
}

// runMutant runs the tests that should kill a mutant, one package after the other, until one does.
func (t *tester) runMutant(ctx context.Context, tests []string, m mutant, limits map[string]time.Duration) (result, error) {
	r := result{mutant: m}
	for _, pkg := range tests {
		v, err := t.test(ctx, pkg, &m, limits[pkg])
		if err != nil {
			return r, err
		}
		r.Outcome = v.outcome
		r.Seconds += v.took.Round(100 * time.Millisecond).Seconds()
		if v.outcome != survived {
			break
		}
	}
	return r, nil
}

// limits runs the tests on the unchanged code and returns the time limits of the packages for runs
// with a mutant. It returns an error if the tests fail.
func (t *tester) limits(ctx context.Context, tests []string) (map[string]time.Duration, error) {
	limits := map[string]time.Duration{}
	for _, pkg := range tests {
		v, err := t.test(ctx, pkg, nil, time.Hour)
		if err != nil {
			return nil, err
		}
		if v.outcome != survived {
			return nil, fmt.Errorf("the tests of %s fail without a mutant:\n%s", pkg, v.output)
		}
		limits[pkg] = (2*v.took + t.grace).Round(time.Second)
	}
	return limits, nil
}
