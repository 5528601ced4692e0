package bench

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	_ "portolan.dev/dnssvc" // startDaemon builds it
	"portolan.dev/services/kit/kittest"
)

// server is a name server in a process of its own.
type server struct {
	name string
	addr string // of the DNS server
	cmd  *exec.Cmd
}

// start starts a process that ends with the test, even if the test is killed.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	done := make(chan struct{})
	started := make(chan error, 1)
	go func() {
		defer close(done)
		runtime.LockOSThread() // the child is tied to this thread
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it was killed
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		<-done
	})
}

// daemon builds the daemon once and returns its path. The test measures the installed program,
// because its own binary also contains a NATS server and more.
var daemon = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "dnssvc-bench-")
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "dnssvc"), kittest.Build(dir, "portolan.dev/dnssvc/cmd/dnssvc")
})

// TestMain removes the daemon's binary.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if *measure {
		if path, err := daemon(); err == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
	}
	os.Exit(code)
}

// startDaemon runs the daemon, and reads its addresses from its log.
func startDaemon(t *testing.T, name string, args ...string) *server {
	t.Helper()
	path, err := daemon()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{
		"-addr=127.0.0.1:0", "-http-addr=127.0.0.1:0", "-listen=127.53.254.1:0", "-log-format=json", "-lame-duck=0s", "-transfer-allow=127.0.0.0/8",
	}, args...)...)
	logs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = os.Stdout
	start(t, cmd)
	s := &server{name: name, cmd: cmd}
	lines := bufio.NewScanner(logs)
	for s.addr == "" && lines.Scan() {
		var line struct {
			Msg string
			DNS []string
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "dnssvc listens" {
			s.addr = line.DNS[0]
		}
	}
	go func() { _, _ = io.Copy(io.Discard, logs) }() // until the daemon ends
	if s.addr == "" {
		t.Fatalf("%s did not start: %v", name, lines.Err())
	}
	return s
}

// waitFor waits until a server answers a question with a record.
func (s *server) waitFor(t *testing.T, name string) {
	t.Helper()
	client := &dns.Client{Timeout: time.Second}
	kittest.Eventually(t, s.name+" answers", func() error {
		reply, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), s.addr)
		if err == nil && len(reply.Answer) == 0 {
			err = fmt.Errorf("%s: %s", name, dns.RcodeToString[reply.Rcode])
		}
		return err
	})
}

// freePort returns an address whose port was free by UDP and TCP a moment before.
func freePort(t *testing.T, host string) (addr, port string) {
	t.Helper()
	for range 100 {
		pc, err := net.ListenPacket("udp", host+":0")
		if err != nil {
			t.Fatal(err)
		}
		addr = pc.LocalAddr().String()
		lis, err := net.Listen("tcp", addr)
		pc.Close()
		if err == nil {
			lis.Close()
			_, port, _ = net.SplitHostPort(addr)
			return addr, port
		}
	}
	t.Fatal("no port is free")
	return "", ""
}

// startNSD and startKnot serve zones from files on one processor: one process or one thread
// answers. They turn limits on the rate of answers off, because these would drop part of the load.
func startNSD(t *testing.T, name, program, host string, files map[string]string) *server {
	t.Helper()
	addr, port := freePort(t, host)
	dir := t.TempDir()
	var conf strings.Builder
	fmt.Fprintf(&conf, "server:\n server-count: 1\n rrl-ratelimit: 0\n ip-address: %s\n port: %s\n username: \"\"\n zonesdir: %q\n database: \"\"\n xfrdir: %q\n", host, port, dir, dir)
	for _, file := range []string{"pidfile", "xfrdfile", "zonelistfile", "cookie-secret-file"} {
		fmt.Fprintf(&conf, " %s: %q\n", file, filepath.Join(dir, file))
	}
	conf.WriteString("remote-control:\n control-enable: no\n")
	for zone, file := range files {
		fmt.Fprintf(&conf, "zone:\n name: %q\n zonefile: %q\n", zone, file)
	}
	cmd := exec.Command(program, "-d", "-c", write(t, dir, conf.String()))
	start(t, cmd)
	return &server{name: name, addr: addr, cmd: cmd}
}

func startKnot(t *testing.T, files map[string]string) *server {
	t.Helper()
	const host = "127.53.254.3"
	addr, port := freePort(t, host)
	dir := t.TempDir()
	var conf strings.Builder
	fmt.Fprintf(&conf, "server:\n  rundir: %q\n  listen: %s@%s\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n", dir, host, port)
	fmt.Fprintf(&conf, "database:\n  storage: %q\nzone:\n", dir)
	for zone, file := range files {
		fmt.Fprintf(&conf, "  - domain: %s\n    file: %q\n    zonefile-sync: -1\n", zone, file)
	}
	cmd := exec.Command("/usr/sbin/knotd", "-c", write(t, dir, conf.String()))
	start(t, cmd)
	return &server{name: "knot", addr: addr, cmd: cmd}
}

func write(t *testing.T, dir, text string) string {
	t.Helper()
	file := filepath.Join(dir, "conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// cpu returns the CPU time that the server's processes have used. NSD has several, all in one
// process group.
func (s *server) cpu(t *testing.T) time.Duration {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	ticks := int64(0)
	for _, file := range stats {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		_, rest, _ := strings.Cut(string(content), ") ")
		fields := strings.Fields(rest)
		if fields[2] != strconv.Itoa(s.cmd.Process.Pid) { // process group
			continue
		}
		for _, field := range fields[11:13] { // user and system time
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / 100
}

// rss returns the memory of the server's first process, in MB.
func (s *server) rss(t *testing.T) float64 {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(content), "VmRSS:")
	kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb / 1024
}
