package main

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// machines are the architectures with the machine in the ELF header of their programs.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// commandLine is the only program that is not a daemon.
const commandLine = "portolan"

// programs returns the names of all programs.
func (r *release) programs() []string { return append([]string{commandLine}, r.daemons...) }

// program returns the path of a built program.
func (r *release) program(arch, name string) string {
	return filepath.Join(r.out, "linux_"+arch, name)
}

// build builds the programs for an architecture.
func (r *release) build(ctx context.Context, arch string) error {
	folder := filepath.Dir(r.program(arch, commandLine))
	if err := r.compile(ctx, folder, []string{"GOOS=linux", "GOARCH=" + arch}, r.programs()...); err != nil {
		return err
	}
	for _, name := range r.programs() {
		if err := checkStatic(r.program(arch, name), machines[arch]); err != nil {
			return err
		}
	}
	return nil
}

// compile builds programs into a folder. It overrides GOFLAGS and the settings of the processor in the
// caller's environment, because they would change the result.
func (r *release) compile(ctx context.Context, folder string, env []string, programs ...string) error {
	fmt.Fprintf(r.log, "building %s\n", folder)
	stamp := "-s -w -buildid= -X portolan.dev/services/kit/obs.release=" + r.version + " -X portolan.dev/services/kit/obs.commit=" + r.commit
	// The reason for grpcnotrace is in the Makefile.
	args := []string{"build", "-trimpath", "-buildvcs=false", "-tags=grpcnotrace", "-ldflags=" + stamp, "-o", folder + string(filepath.Separator)}
	for _, name := range programs {
		args = append(args, "./"+name+"/cmd/"+name)
	}
	build := exec.CommandContext(ctx, "go", args...)
	build.Dir = r.root
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "PWD="+r.root)
	build.Env = append(build.Env, env...)
	if r.cache != "" {
		build.Env = append(build.Env, "GOCACHE="+r.cache)
	}
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// checkStatic returns an error unless a program is for a machine and is linked statically.
func checkStatic(name string, machine elf.Machine) error {
	file, err := elf.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if file.Machine != machine {
		return fmt.Errorf("%s is for %s, want %s", name, file.Machine, machine)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP || segment.Type == elf.PT_DYNAMIC {
			return fmt.Errorf("%s is not static: it has a segment %s", name, segment.Type)
		}
	}
	return nil
}

// epoch returns the time of the release as SOURCE_DATE_EPOCH.
func (r *release) epoch() string { return strconv.FormatInt(r.time.Unix(), 10) }
