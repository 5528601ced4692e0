package bench

import (
	"flag"
	"fmt"
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

	_ "portolan.dev/edge" // startEdge builds it
	"portolan.dev/services/kit/kittest"
)

// proxy is a proxy in a process of its own, with its address for each kind of load.
type proxy struct {
	name  string
	cmd   *exec.Cmd
	addrs map[string]string
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

// program builds the daemon once and returns its path.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "edge-bench-")
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "edge"), kittest.Build(dir, "portolan.dev/edge/cmd/edge")
})

// TestMain removes the daemon's binary.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if *measure {
		if path, err := program(); err == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
	}
	os.Exit(code)
}

// startEdge runs an edge that follows a registry, and waits until it serves its addresses.
func startEdge(t *testing.T, addrs map[string]string, args ...string) *proxy {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{
		"-addr=127.0.0.1:0", "-http-addr=127.0.0.1:0", "-agent=", "-node-name=bench", "-log-level=warn", "-stop-timeout=0s", "-lame-duck=0s", "-max-conns-per-client=0",
	}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	start(t, cmd)
	p := &proxy{name: "edge", cmd: cmd, addrs: addrs}
	p.wait(t)
	return p
}

// haproxyConfig is HAProxy's configuration: with as many threads as the edge has, and connections to
// backends that are kept for further requests, as an edge does.
const haproxyConfig = `global
  nbthread %d
  maxconn %d
  tune.ssl.default-dh-param 2048
  ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
  timeout connect 5s
  timeout client 1h
  timeout server 1h
frontend tcp
  mode tcp
  bind %s
  default_backend echo
frontend tls
  mode tcp
  bind %s ssl crt %s
  default_backend echo
backend echo
  mode tcp
  server b %s
frontend http
  mode http
  bind %s
  option forwardfor
  default_backend web
frontend https
  mode http
  bind %s ssl crt %s alpn h2,http/1.1
  option forwardfor
  default_backend web
backend web
  mode http
  http-reuse always
  server b %s
`

// startHAProxy runs HAProxy in front of the backends.
func startHAProxy(t *testing.T, pem, echo, web string) *proxy {
	t.Helper()
	addrs := map[string]string{}
	for _, kind := range kinds {
		addrs[kind] = freeAddr(t, "127.77.1.1")
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	text := fmt.Sprintf(haproxyConfig, runtime.NumCPU(), mostConnections(t), addrs["tcp"], addrs["tls"], pem, echo, addrs["http"], addrs["https"], pem, web)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("haproxy", "-db", "-q", "-f", file)
	cmd.Stderr = os.Stderr
	start(t, cmd)
	p := &proxy{name: "haproxy", cmd: cmd, addrs: addrs}
	p.wait(t)
	return p
}

// wait waits until the proxy accepts connections for each kind of load.
func (p *proxy) wait(t *testing.T) {
	t.Helper()
	for kind, addr := range p.addrs {
		kittest.Eventually(t, p.name+" listens for "+kind, func() error {
			conn, err := net.DialTimeout("tcp", addr, time.Second)
			if err == nil {
				err = conn.Close()
			}
			return err
		})
	}
}

// freeAddr returns an address of the host with a port that no process listens on at the time of the call.
func freeAddr(t *testing.T, host string) string {
	t.Helper()
	lis, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	return lis.Addr().String()
}

// mostConnections returns the number of connections that a proxy can have with its limit of open files,
// with as many to backends.
func mostConnections(t *testing.T) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return int(min(limit.Max, 1<<20)-200) / 2
}

// clockTick is the unit of times in /proc, which is the same on all Linux machines.
const clockTick = 10 * time.Millisecond

// cpu returns the CPU time that the proxy has used.
func (p *proxy) cpu(t *testing.T) time.Duration {
	t.Helper()
	fields := p.proc(t, "stat")
	return time.Duration(number(t, fields[11])+number(t, fields[12])) * clockTick
}

// rss returns the memory of the proxy in bytes.
func (p *proxy) rss(t *testing.T) int {
	t.Helper()
	return number(t, p.proc(t, "stat")[21]) * os.Getpagesize()
}

// proc returns the fields of a file of the process after the name of its program.
func (p *proxy) proc(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
