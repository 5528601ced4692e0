package script

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"portolan.dev/services/probe"
)

const (
	// maxOutput is the part of a script's output that is kept for the reason of a failure, in bytes.
	maxOutput = 1 << 10
	// outputAfterEnd is the time for which output is read after the process group has ended. Only a
	// process that has left the group can hold it open.
	outputAfterEnd = time.Second
	// defaultPath is the search path of scripts if the agent has none.
	defaultPath = "/usr/local/bin:/usr/bin:/bin"
)

// Pod is the pod that a script checks.
type Pod struct {
	Namespace, Name, IP string
}

// Check returns the check that runs a command: the name of a script and its arguments. It succeeds if
// the script ends with exit code 0. The check's context ends the script with all processes of its
// group. An error that wraps ErrRefused means that nothing was run.
func (f *Folder) Check(command []string, pod Pod) probe.Check {
	return func(ctx context.Context) error {
		if len(command) == 0 {
			return fmt.Errorf("%w: the check has no command", ErrRefused)
		}
		path, err := f.find(command[0])
		if err != nil {
			return err
		}
		var out output
		cmd := exec.Command(path, command[1:]...) // #nosec G204 -- find returns scripts of the administrator only; run ends it with ctx
		cmd.Args[0] = command[0]
		cmd.Dir, cmd.Env = "/", environment(pod)
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, outputAfterEnd
		err = f.run(ctx, cmd)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err == nil || errors.Is(err, exec.ErrWaitDelay) {
			return nil
		}
		if text := out.text(); text != "" {
			return fmt.Errorf("script %s: %w: %s", command[0], err, text)
		}
		return fmt.Errorf("script %s: %w", command[0], err)
	}
}

func environment(pod Pod) []string {
	path := os.Getenv("PATH")
	if path == "" {
		path = defaultPath
	}
	return []string{"PATH=" + path, "PORTOLAN_POD_NAMESPACE=" + pod.Namespace, "PORTOLAN_POD_NAME=" + pod.Name, "PORTOLAN_POD_IP=" + pod.IP}
}

// output keeps the first maxOutput bytes that are written to it. A single goroutine of os/exec
// writes, because standard output and standard error are the same writer.
type output struct {
	kept []byte
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.kept = append(o.kept, p[:min(len(p), maxOutput-len(o.kept))]...)
	return len(p), nil
}

func (o *output) text() string {
	return strings.TrimSpace(strings.ToValidUTF8(string(o.kept), ""))
}
