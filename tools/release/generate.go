package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// shells are the shells with a completion, and the paths at which they look for it.
var shells = map[string]string{
	"bash": "/usr/share/bash-completion/completions/portolan",
	"fish": "/usr/share/fish/vendor_completions.d/portolan.fish",
	"zsh":  "/usr/share/zsh/vendor-completions/_portolan",
}

// generated returns the path of a generated file.
func (r *release) generated(parts ...string) string {
	return filepath.Join(append([]string{r.out, "generated"}, parts...)...)
}

// generate writes the manual pages, the completions and the files for systemd-sysusers. The command line
// prints the pages and completions, so it is also built for this machine.
func (r *release) generate(ctx context.Context) error {
	if err := os.RemoveAll(r.generated()); err != nil {
		return err
	}
	if err := r.compile(ctx, r.generated("host"), nil, commandLine); err != nil {
		return err
	}
	if _, err := r.ask(ctx, "man", r.generated("man")); err != nil {
		return err
	}
	if err := compressPages(r.generated("man")); err != nil {
		return err
	}
	for shell := range shells {
		text, err := r.ask(ctx, "completion", shell)
		if err != nil {
			return err
		}
		if err := writeFile(r.generated("completion", shell), text); err != nil {
			return err
		}
	}
	for _, daemon := range r.daemons {
		u, err := r.readUnit(daemon)
		if err != nil {
			return err
		}
		if u.user == "root" {
			continue
		}
		if err := writeFile(r.generated("sysusers", daemon), []byte(u.sysusers())); err != nil {
			return err
		}
	}
	return nil
}

// ask runs the command line that was built for this machine, and returns its output.
func (r *release) ask(ctx context.Context, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, r.generated("host", commandLine), args...)
	command.Env = []string{"SOURCE_DATE_EPOCH=" + r.epoch(), "HOME=" + r.out}
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("portolan %s: %w\n%s", strings.Join(args, " "), err, problems.Bytes())
	}
	return out, nil
}

// compressPages compresses each page of a folder, because Debian installs compressed pages.
func compressPages(folder string) error {
	pages, err := filepath.Glob(filepath.Join(folder, "*.[18]"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		if err := writeFile(page+".gz", compressed(text)); err != nil {
			return err
		}
		if err := os.Remove(page); err != nil {
			return err
		}
	}
	return nil
}

// compressed returns a text in gzip format, without a name and a time in the header.
func compressed(text []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is a valid one
	_, _ = w.Write(text)                                    // a buffer takes everything
	_ = w.Close()
	return out.Bytes()
}

func writeFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}
