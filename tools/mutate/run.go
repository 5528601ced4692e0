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

// tester runs tests with one file replaced.
type tester struct {
	root string // the folder of the workspace
	env  []string
	// grace is how long tests may take with a mutant, beyond twice the time without.
	grace time.Duration
}

// verdict is how a run of tests ended.
type verdict struct {
	outcome string
	output  string
	took    time.Duration
}

// test runs the tests of a package. m may be nil: then nothing is changed.
func (t *tester) test(ctx context.Context, pkg string, m *mutant, limit time.Duration) (verdict, error) {
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return verdict{}, err
	}
	defer os.RemoveAll(dir)
	// -short is not given: a test that is left out kills nothing.
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

// building is how long the go command may take beyond the tests.
const building = 10 * time.Minute

func (t *tester) run(ctx context.Context, args []string, limit time.Duration) (verdict, error) {
	limited, cancel := context.WithTimeout(ctx, limit+building)
	defer cancel()
	cmd := exec.CommandContext(limited, "go", args...)
	cmd.Dir, cmd.Env = t.root, append(os.Environ(), t.env...)
	// All that the tests have started goes with them: a mutant may leave processes behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // most leave nothing
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

// writeOverlay writes what -overlay reads, and returns its name.
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

// judge tries a mutant against the packages that should notice it.
func (t *tester) judge(ctx context.Context, tests []string, m mutant, limits map[string]time.Duration) (result, error) {
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

// limits runs the tests on the code as it is, which must pass, and returns how long they may take with a mutant.
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
