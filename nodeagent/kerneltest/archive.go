package kerneltest

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// modules are loaded before the tests, with their dependencies, because the guest cannot load
// modules on demand.
var modules = []string{
	"ip_vs", "ip_vs_rr", "ip_vs_lc", "ip_vs_dh", "ip_vs_fo", "ip_vs_sh", "ip_vs_sed", "ip_vs_nq", "ip_vs_wrr", "ip_vs_wlc", "ip_vs_mh",
	"nf_tables", "nft_chain_nat", "nft_nat", "nft_masq", "nft_ct", "nft_reject_inet", "nft_reject_ipv4", "nft_reject_ipv6",
	"nft_fib_inet", "nft_fib_ipv4", "nft_fib_ipv6", "nft_hash", "nft_numgen", "nft_limit", "nft_log", "nft_redir", "nft_dup_ipv4", "nft_dup_ipv6",
	"nf_conntrack_netlink", "veth", "dummy", "bridge", "sctp",
}

// The files of the guest.
const (
	initPath   = "init"
	jobPath    = "job.json"
	modulesDir = "modules"
)

// job is the description of the guest's work.
type job struct {
	Args    []string
	Env     []string
	Modules []string // files, in the order in which they are loaded
}

// writeInitrd packs the modules, the programs and the test binary, which is its own init.
func (m *machine) writeInitrd(path string, args []string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriterSize(f, 1<<20)
	a := &archive{w: out}
	for _, dir := range []string{"dev", "proc", "sys", "tmp", "run", modulesDir} {
		a.add(dir, 0o040755, nil)
	}
	todo := job{Args: args, Env: guestEnv(os.Environ())}
	found, err := collect(m.tree, m.names)
	if err != nil {
		return err
	}
	for _, mod := range found {
		a.add(modulesDir+"/"+mod.name, 0o100644, mod.code)
		todo.Modules = append(todo.Modules, mod.name)
	}
	text, err := json.Marshal(todo)
	if err != nil {
		return err
	}
	binary, err := os.ReadFile(m.binary)
	if err != nil {
		return err
	}
	if err := a.addPrograms(m.programs); err != nil {
		return err
	}
	a.add(jobPath, 0o100644, text)
	a.add(initPath, 0o100755, binary)
	a.add("TRAILER!!!", 0, nil)
	if a.err != nil {
		return a.err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// guestEnv returns the environment variables that tests read.
func guestEnv(environ []string) []string {
	env := []string{"PATH=/", "TMPDIR=/tmp", "HOME=/tmp"}
	for _, e := range environ {
		if strings.HasPrefix(e, "PORTOLAN_") || strings.HasPrefix(e, "GODEBUG=") || strings.HasPrefix(e, "RAPID_") {
			env = append(env, e)
		}
	}
	return env
}

// archive writes the newc format of cpio, which kernels unpack.
type archive struct {
	w     io.Writer
	inode int
	err   error
}

func (a *archive) add(name string, mode uint32, content []byte) {
	a.inode++
	head := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		a.inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name)+1, 0)
	a.write([]byte(head + name + "\x00"))
	a.pad(len(head) + len(name) + 1)
	a.write(content)
	a.pad(len(content))
}

func (a *archive) pad(n int) { a.write(make([]byte, -n&3)) }

func (a *archive) write(p []byte) {
	if a.err == nil {
		_, a.err = a.w.Write(p)
	}
}

// module is a kernel module without its signature, because verifying signatures takes time.
type module struct {
	name string
	code []byte
}

// collect reads modules and their dependencies, dependencies first. Modules that are built into the
// kernel have no file.
func collect(tree string, names []string) ([]module, error) {
	paths := map[string]string{}
	err := filepath.WalkDir(tree, func(path string, _ fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(filepath.Base(path), ".ko"); ok {
			paths[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("modules: %w", err)
	}
	var out []module
	seen := map[string]bool{}
	var load func(name string) error
	load = func(name string) error {
		path := paths[name]
		if seen[name] || path == "" {
			return nil
		}
		seen[name] = true
		code, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		needs, err := dependencies(code)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, n := range needs {
			if err := load(n); err != nil {
				return err
			}
		}
		out = append(out, module{name, unsigned(code)})
		return nil
	}
	for _, name := range names {
		if err := load(name); err != nil {
			return nil, err
		}
	}
	if !seen["ip_vs"] || !seen["nf_tables"] {
		return nil, fmt.Errorf("the kernel in %s has no modules ip_vs and nf_tables", tree)
	}
	return out, nil
}

// dependencies reads the dependencies from a module's metadata.
func dependencies(code []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(code))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New("no .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for field := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := strings.CutPrefix(string(field), "depends="); ok && list != "" {
			return strings.Split(strings.ReplaceAll(list, "-", "_"), ","), nil
		}
	}
	return nil, nil
}

// unsigned removes a signature: the signature itself, 12 bytes of metadata with the length in the
// last 4, and a magic text.
func unsigned(code []byte) []byte {
	const magic = "~Module signature appended~\n"
	body, ok := bytes.CutSuffix(code, []byte(magic))
	if !ok || len(body) < 12 {
		return code
	}
	size := int(binary.BigEndian.Uint32(body[len(body)-4:]))
	if size > len(body)-12 {
		return code
	}
	return body[:len(body)-12-size]
}

// isStatic reports whether a program runs without shared libraries.
func isStatic(path string) (bool, error) {
	f, err := elf.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return false, nil
		}
	}
	return true, nil
}
