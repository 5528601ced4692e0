package kubeapi

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"portolan.dev/services/kit/kittest"
)

// patience bounds the time for a program to end. It is far longer than one needs.
const patience = 60 * time.Second

// tailSize is the size of the end of a program's output that a failed test prints, in bytes.
const tailSize = 4000

// program is a client that runs beside the test.
type program struct {
	t       *testing.T
	command *exec.Cmd
	output  string // path of the file
	ended   chan struct{}
}

// start starts a program. Its output goes to a file unless the command has another place for it. The
// program is told to end when the test ends. in calls a function in the namespace of the program; nil: in
// the namespace of the test.
func start(t *testing.T, command *exec.Cmd, in func(func() error) error) *program {
	t.Helper()
	p := &program{t: t, command: command, output: filepath.Join(t.TempDir(), "output"), ended: make(chan struct{})}
	file, err := os.Create(p.output)
	if err != nil {
		t.Fatal(err)
	}
	if command.Stdout == nil {
		command.Stdout = file
	}
	command.Stderr = file
	if in == nil {
		in = func(f func() error) error { return f() }
	}
	if err := in(command.Start); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = command.Wait() // the exit code does not matter, because programs are told to end
		_ = file.Close()
	}()
	t.Cleanup(p.stop)
	return p
}

// startReading starts a program, and passes each line of its output on.
func startReading(t *testing.T, command *exec.Cmd, each func(line []byte)) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	t.Cleanup(func() {
		<-read
		_ = reader.Close()
	})
	command.Stdout = writer
	start(t, command, nil)
	_ = writer.Close() // the program has its own
	go func() {
		defer close(read)
		lines := bufio.NewScanner(reader)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			each(lines.Bytes())
		}
	}()
}

// buildClient builds the program in a folder of tools, with flags of the build, and returns its path.
func buildClient(t testing.TB, folder string, flags ...string) string {
	t.Helper()
	const tools = "../../testdata/repository/tools/"
	if _, err := os.ReadDir(tools + folder); err != nil { // go test serves no old result if a file has changed that the test reads
		t.Fatal(err)
	}
	built := filepath.Join(programs, filepath.Base(folder))
	if _, err := os.Stat(built); err != nil {
		module, inside, _ := strings.Cut(folder, "/")
		if err := kittest.BuildAlone(tools+module, programs, append(flags, "./"+inside)...); err != nil {
			t.Fatal(err)
		}
	}
	return built
}

// stop ends the program.
func (p *program) stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Errorf("%s did not end within %s of SIGTERM", p.command.Path, patience)
		_ = p.command.Process.Kill()
		<-p.ended
	}
	if p.t.Failed() {
		p.t.Logf("%s said at last:\n%s", p.command.Path, p.tail())
	}
}

// tail returns the end of the output.
func (p *program) tail() string {
	text, err := os.ReadFile(p.output)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-tailSize):])
}

// configFile writes a file of testdata for a test: each text in changes is replaced by the next one. The
// files are examples for users, with the names of an installation of theirs.
func configFile(t *testing.T, name string, changes ...string) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(source)
	for n := 0; n < len(changes); n += 2 {
		if !strings.Contains(text, changes[n]) {
			t.Fatalf("%s has no %q", name, changes[n])
		}
		text = strings.ReplaceAll(text, changes[n], changes[n+1])
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDocumentHasTheTestedFiles compares the document for users with the files that the tests give to the
// clients.
func TestDocumentHasTheTestedFiles(t *testing.T) {
	document, err := os.ReadFile("../../testdata/repository/docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Corefile", "kube-proxy.yaml"} {
		source, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(source)
		for strings.HasPrefix(text, "#") {
			_, text, _ = strings.Cut(text, "\n")
		}
		if !strings.Contains(string(document), "\n"+text+"```\n") {
			t.Errorf("docs/kubernetes.md does not have testdata/%s", name)
		}
	}
}

// freePort returns a port that nothing uses, by UDP and TCP, for a program that cannot choose one.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		packets, err := net.ListenPacket("udp", listener.Addr().String())
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		closers := []io.Closer{listener}
		if err == nil {
			closers = append(closers, packets)
		}
		for _, c := range closers {
			_ = c.Close()
		}
		if err == nil {
			return port
		}
	}
	t.Fatal("no port is free by UDP and TCP")
	return ""
}
