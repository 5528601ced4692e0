package attacks

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/token"
)

const (
	// nobody is the number of a user that owns no files.
	nobody = 65534
	// needsToken is in the error of every request without the token.
	needsToken = "this installation serves its own user only"
)

// developer is a user that runs `portolan dev` in a folder, on the default addresses.
type developer struct {
	*testing.T
	home string
}

// develop starts `portolan dev`, in a data directory that others may list, and waits until it is
// ready.
func develop(t *testing.T) *developer {
	t.Helper()
	labtest.Need(t)
	d := &developer{t, t.TempDir()}
	if err := os.Mkdir(filepath.Join(d.home, ".portolan"), 0o755); err != nil {
		t.Fatal(err)
	}
	network := labtest.NewNetwork(t)
	command := labtest.Command(t, "portolan", []string{"dev"})
	command.Dir = d.home
	dev := labtest.Run(t, "dev", command, network.Hub)
	kittest.Eventually(t, "dev is ready", func() error {
		log, err := os.ReadFile(dev.LogFile())
		if err == nil && !strings.Contains(string(log), "portolan ready") {
			err = errors.New(string(log))
		}
		return err
	})
	return d
}

// run runs the developer's command line, without flags for the connection.
func (d *developer) run(stdin string, args ...string) string {
	d.Helper()
	command := labtest.Command(d.T, "portolan", args)
	command.Dir, command.Stdin = d.home, strings.NewReader(stdin)
	out, err := command.CombinedOutput()
	if err != nil {
		d.Fatalf("the developer's %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (d *developer) tokenFile() string { return filepath.Join(d.home, ".portolan", "token") }

const devService = `{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 8080}]}}`

// TestOtherUsersCannotUseDev runs the command line as another user of the developer's machine, calls
// every method of every daemon without the token and with wrong ones, and reads HTTP.
func TestOtherUsersCannotUseDev(t *testing.T) {
	d := develop(t)
	d.run(devService, "apply", "-f", "-")
	t.Run("command line", d.attackAsNobody)
	t.Run("methods", d.callWithoutToken)
	t.Run("http", d.readHTTP)
	t.Run("children", d.lookForToken)
	t.Run("files", d.lookAtFiles)
	if out := d.run("", "get", "services", "-o", "name"); out != "service/web\n" {
		t.Errorf("after the attacks there are %q", out)
	}
}

// attackAsNobody runs commands that read and write as another user of the machine, without a token
// and with a token that this user has made.
func (d *developer) attackAsNobody(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("allowed: only root runs programs as another user")
	}
	home := theirFolder(t)
	program := filepath.Join(home, "portolan")
	copySelf(t, program)
	try := func(args ...string) string {
		command := labtest.Command(t, "portolan", args)
		command.Path, command.Dir = program, home
		command.Stdin = strings.NewReader(strings.ReplaceAll(devService, "web", "theirs"))
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := command.CombinedOutput()
		if _, ran := errors.AsType[*exec.ExitError](err); !ran {
			t.Errorf("another user's %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	attempts := [][]string{
		{"get", "services"}, {"apply", "-f", "-"}, {"delete", "service", "web"}, {"node", "drain", "dev"}, {"dns", "query", "web"},
		{"explain", "service", "web"}, {"run", "--name", "theirs", "--", "true"},
	}
	for _, args := range attempts {
		if out := try(args...); !strings.Contains(out, needsToken) {
			t.Errorf("another user's %v:\n%s", args, out)
		}
	}
	if out := try("get", "services", "--token-file", d.tokenFile()); !strings.Contains(out, "permission denied") {
		t.Errorf("another user reads the token:\n%s", out)
	}
	folder := filepath.Join(home, ".portolan")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := token.Create(filepath.Join(folder, "token")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{folder, filepath.Join(folder, "token")} {
		if err := os.Chown(path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	if out := try("get", "services"); !strings.Contains(out, "has another token") {
		t.Errorf("with a token of another installation:\n%s", out)
	}
}

// theirFolder returns a folder of the user nobody. That user cannot enter folders of t.TempDir.
func theirFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "portolan-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	return dir
}

// copySelf copies this program to a place where another user can run it.
func copySelf(t *testing.T, to string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	file, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(file, from)
	if err := errors.Join(err, file.Chmod(0o755), file.Close()); err != nil {
		t.Fatal(err)
	}
}

// devPorts are the APIs of the daemons, by the packages of their services.
var devPorts = map[string]int{
	"portolan.registry.v1": 7400, "portolan.allocator.v1": 7401, "portolan.endpoints.v1": 7402, "portolan.dns.v1": 7403, "portolan.nodeagent.v1": 7404,
}

// callWithoutToken calls every method of the contract without the token and with wrong ones. Health
// stays open.
func (d *developer) callWithoutToken(t *testing.T) {
	secret, err := os.ReadFile(d.tokenFile())
	if err != nil {
		t.Fatal(err)
	}
	right := strings.TrimSpace(string(secret))
	called := 0
	for pkg, port := range devPorts {
		conn := dialPlain(t, port)
		if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
			t.Errorf("health of %s: %v", pkg, err)
		}
		for _, method := range methodsOf(pkg) {
			// To a server, a unary call and a stream of one request look alike.
			for name, headers := range map[string][]string{
				"no token": nil, "half a token": {token.Header, "Bearer " + right[:len(right)/2]}, "an empty token": {token.Header, "Bearer "},
				"the bare token": {token.Header, right}, "two tokens": {token.Header, "Bearer " + right, token.Header, "Bearer " + right},
			} {
				ctx := metadata.AppendToOutgoingContext(t.Context(), headers...)
				if err := conn.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{}); status.Code(err) != codes.Unauthenticated {
					t.Errorf("%s with %s: %v", method, name, err)
				}
			}
			called++
		}
	}
	if called < 70 {
		t.Errorf("%d methods were called; the contract has more", called)
	}
	owner := metadata.AppendToOutgoingContext(t.Context(), token.Header, "Bearer "+right)
	if _, err := registryv1.NewServiceServiceClient(dialPlain(t, 7400)).ListServices(owner, &registryv1.ListServicesRequest{}); err != nil {
		t.Errorf("with the token: %v", err)
	}
}

func dialPlain(t *testing.T, port int, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := rpc.TCP().Dial(fmt.Sprintf("127.0.0.1:%d", port), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// methodsOf returns the full names of the methods of a package of the contract.
func methodsOf(pkg string) (methods []string) {
	protoregistry.GlobalFiles.RangeFilesByPackage(protoreflect.FullName(pkg), func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				methods = append(methods, fmt.Sprintf("/%s/%s", service.FullName(), service.Methods().Get(j).Name()))
			}
		}
		return true
	})
	return methods
}

// readHTTP reads the metrics and looks for profiles.
func (d *developer) readHTTP(t *testing.T) {
	secret, err := token.Read(d.tokenFile())
	if err != nil {
		t.Fatal(err)
	}
	headers, err := secret.GetRequestMetadata(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	get := func(url, authorization string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if authorization != "" {
			request.Header.Set("Authorization", authorization)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			return 0
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	for _, port := range slices.Sorted(maps.Values(devPorts)) {
		base := fmt.Sprintf("http://127.0.0.1:%d", port+100)
		for _, c := range []struct {
			path, authorization string
			want                int
		}{
			{"/metrics", "", http.StatusUnauthorized}, {"/metrics", "Bearer guess", http.StatusUnauthorized}, {"//metrics", "", http.StatusUnauthorized},
			{"/metrics", headers[token.Header], http.StatusOK}, {"/healthz", "", http.StatusOK}, {"/readyz", "", http.StatusOK},
			{"/debug/pprof/heap", "", http.StatusUnauthorized}, {"/debug/pprof/heap", headers[token.Header], http.StatusNotFound},
		} {
			if got := get(base+c.path, c.authorization); got != c.want {
				t.Errorf("%s%s with %.10q: %d, want %d", base, c.path, c.authorization, got, c.want)
			}
		}
	}
	for authorization, want := range map[string]int{
		"": http.StatusUnauthorized, "Bearer guess": http.StatusUnauthorized, "Basic Og==": http.StatusUnauthorized, // a colon alone
		"Basic cG9ydG9sYW46Z3Vlc3M=": http.StatusUnauthorized, headers[token.Header]: http.StatusOK,
	} {
		for _, path := range []string{"/api", "/version", "/api/v1/services"} {
			if got := get("http://127.0.0.1:7405"+path, authorization); got != want {
				t.Errorf("%s at kubeapi with %.10q: %d, want %d", path, authorization, got, want)
			}
		}
	}
}

// lookForToken runs a program that prints its environment.
func (d *developer) lookForToken(t *testing.T) {
	command := labtest.Command(t, "portolan", []string{"run", "--name", "child", "--nameserver", "none", "--", "env"})
	command.Env = append(command.Environ(), "PORTOLAN_TOKEN_FILE="+d.tokenFile())
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "POD_IP=") || strings.Contains(string(out), "TOKEN") || strings.Contains(string(out), d.tokenFile()) {
		t.Errorf("the program's environment: %v\n%s", err, out)
	}
}

// lookAtFiles checks that others can read or enter nothing in the data directory.
func (d *developer) lookAtFiles(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(d.home, ".portolan"))
	if err != nil || len(entries) < 4 {
		t.Fatalf("files %v, %v", entries, err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %v, %v", entry.Name(), info.Mode(), err)
		}
	}
}

// TestDevListensInItsRangesOnly reports an address of the machine as the address of a load balancer.
// dev must not listen there, and must log the reason. As an external IP the registry refuses the address.
// lbctl leaves the reported address, because no provider serves the service's class.
func TestDevListensInItsRangesOnly(t *testing.T) {
	d := develop(t)
	backend, err := net.Listen("tcp", "127.64.0.9:8080")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	d.run(`{apiVersion: v1, kind: Service, metadata: {name: open}, spec: {type: LoadBalancer, loadBalancerClass: example.com/none, ports: [{port: 8080}]}}
---
{apiVersion: v1, kind: Endpoints, metadata: {name: open}, subsets: [{addresses: [{ip: 127.64.0.9}], ports: [{port: 8080}]}]}
`, "apply", "-f", "-")
	secret, err := token.Read(d.tokenFile())
	if err != nil {
		t.Fatal(err)
	}
	services := registryv1.NewServiceServiceClient(dialPlain(t, 7400, grpc.WithPerRPCCredentials(secret)))
	answer, err := services.GetService(t.Context(), &registryv1.GetServiceRequest{Name: "open"})
	if err != nil {
		t.Fatal(err)
	}
	service := answer.GetService()
	cluster := net.JoinHostPort(service.GetSpec().GetClusterIp(), "8080")
	kittest.Eventually(t, "a listener at "+cluster, func() error { return tryConnect(cluster) })
	machine := "172.31.0.1"              // of the hub
	service.Metadata.ResourceVersion = 0 // lbctl writes a condition at the same time
	service.Status = &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: machine}}}}
	if _, err := services.UpdateServiceStatus(t.Context(), &registryv1.UpdateServiceStatusRequest{Service: service}); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "an event", func() error {
		if out := d.run("", "get", "events"); !strings.Contains(out, "is outside of the ranges in which this node listens") {
			return errors.New(out)
		}
		return nil
	})
	if err := tryConnect(net.JoinHostPort(machine, "8080")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("at the machine's address: %v", err)
	}
	if err := tryConnect(cluster); err != nil {
		t.Errorf("at the cluster IP: %v", err)
	}
	for _, ip := range []string{machine, "127.0.0.1", "127.0.0.77", "0.0.0.0", "::1", "169.254.169.254", "224.0.0.1"} {
		service.Spec.ExternalIps = []string{ip}
		service.Metadata.ResourceVersion = 0
		if _, err := services.UpdateService(t.Context(), &registryv1.UpdateServiceRequest{Service: service}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("external IP %s: %v", ip, err)
		}
	}
}

func tryConnect(address string) error {
	conn, err := net.Dial("tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// TestDevRefusesFoldersOfOthers starts dev on folders that another user owns or can write to.
func TestDevRefusesFoldersOfOthers(t *testing.T) {
	for want, prepare := range map[string]func(string) error{
		"can be written to by other users (mode 777)": func(dir string) error { return os.Chmod(dir, 0o777) },
		"belongs to another user (65534)":             func(dir string) error { return os.Chown(dir, nobody, nobody) },
	} {
		dir := t.TempDir()
		if err := prepare(dir); errors.Is(err, os.ErrPermission) {
			continue // only root gives folders away
		} else if err != nil {
			t.Fatal(err)
		}
		out, err := labtest.Command(t, "portolan", []string{"dev", "--data-dir", dir}).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v\n%s", err, out)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("dev has written %v, %v", entries, err)
		}
	}
}
