package rpc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/audit"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

// auditFile is the audit log of a server under test.
type auditFile struct {
	*audit.Log
	t    testing.TB
	path string
}

func newAuditFile(t testing.TB) *auditFile {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	log, err := audit.Open(audit.Options{Path: path, MaxBytes: 64 << 20, Daemon: "allocator", Log: kittest.Logger(t), Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	return &auditFile{log, t, path}
}

// set makes a server record unary calls, with the text of the request as the object's name.
func (f *auditFile) set(o *rpc.ServerOptions) {
	o.Audit = rpc.Audit{Log: f.Log, Always: func(method string) bool { return method == unaryMethod }, Object: func(_ string, request, _ any) (o audit.Object) {
		if req, ok := request.(*text); ok {
			if req.Value == "panic" {
				panic("told to")
			}
			o.Name = req.Value
		}
		return o
	}}
}

// lines closes the log and returns its lines.
func (f *auditFile) lines() (lines []audit.Entry) {
	f.t.Helper()
	f.Close()
	content, err := os.ReadFile(f.path)
	if err != nil {
		f.t.Fatal(err)
	}
	for text := range strings.Lines(string(content)) {
		var e audit.Entry
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			f.t.Fatal(err)
		}
		lines = append(lines, e)
	}
	return lines
}

// TestAuditOfCalls makes calls with every outcome and compares their lines.
func TestAuditOfCalls(t *testing.T) {
	log := newAuditFile(t)
	f := serveTLS(t, &echo{unary: func(_ context.Context, req *text) (*text, error) {
		if req.Value == "fault" {
			return nil, fmt.Errorf("a fault with a secret")
		}
		return newText("ok"), nil
	}, stream: func(ss grpc.ServerStream) error {
		if err := ss.RecvMsg(newText("")); err != nil {
			return err
		}
		<-ss.Context().Done()
		return ss.Context().Err()
	}}, "registry", time.Hour, func(o *rpc.ServerOptions) {
		log.set(o)
		o.MaxRequest = func(string) int { return 1000 }
		o.MaxStreamsPerIdentity = 1
	})
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	traced := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	_, _ = f.call(traced, "one")
	_, _ = f.call(t.Context(), "fault")
	_, _ = f.call(t.Context(), "panic")
	_, _ = f.call(t.Context(), strings.Repeat("x", 2000))
	_, _ = f.call(t.Context(), "\xff")
	_ = f.conn.Invoke(t.Context(), "/portolan.test.v1.EchoService/Other", newText(""), newText(""))

	viewer := f.dial("viewer", time.Hour)
	_ = viewer.Invoke(t.Context(), unaryMethod, newText("x"), newText(""))
	refusedStream, err := viewer.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, streamMethod)
	if err == nil {
		err = refusedStream.RecvMsg(newText(""))
	}
	if err == nil {
		t.Error("the stream was answered")
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := f.open(ctx, t)
	if err := first.SendMsg(newText("first")); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the limit of streams", func() error {
		second := f.open(ctx, t)
		_ = second.SendMsg(newText("second"))
		short, end := context.WithTimeout(ctx, time.Second)
		defer end()
		result := make(chan error, 1)
		go func() { result <- second.RecvMsg(newText("")) }()
		select {
		case <-result:
			return nil
		case <-short.Done():
			return short.Err()
		}
	})

	expiring := f.dial("viewer", 2*time.Second)
	kittest.Eventually(t, "the expiry", func() error {
		if err := expiring.Invoke(t.Context(), unaryMethod, newText("x"), newText("")); !strings.Contains(err.Error(), "expired at") {
			return err
		}
		return nil
	})
	cancel()
	f.stop()

	found := map[string]bool{}
	var traces []string
	for _, e := range log.lines() {
		if e.Serial == "" || e.Identity != "registry" && e.Identity != "viewer" || !strings.HasPrefix(e.Peer, "127.0.0.1:") || e.Daemon != "allocator" {
			t.Errorf("incomplete: %+v", e)
		}
		if strings.Contains(e.Reason, "secret") {
			t.Errorf("the text of a fault: %+v", e)
		}
		if e.TraceID != "" {
			traces = append(traces, e.TraceID)
		}
		method := e.Method[strings.LastIndex(e.Method, "/")+1:]
		reason, _, _ := strings.Cut(e.Reason, " ")
		found[strings.Join([]string{e.Identity, method, e.Name, e.Code, reason}, "|")] = true
	}
	if !slices.Equal(traces, []string{trace}) {
		t.Errorf("traces %q", traces)
	}
	for _, want := range []string{
		"registry|Echo|one|OK|", "registry|Echo|fault|INTERNAL|", "registry|Echo||OK|", "registry|Echo||RESOURCE_EXHAUSTED|the",
		"registry|Echo|\ufffd|INVALID_ARGUMENT|value:", "registry|Other||UNIMPLEMENTED|",
		"viewer|Echo||PERMISSION_DENIED|only", "viewer|Watch||PERMISSION_DENIED|only",
		"registry|Watch||RESOURCE_EXHAUSTED|spiffe://portolan/registry", "viewer|Echo||UNAUTHENTICATED|the",
	} {
		if !found[want] {
			t.Errorf("there is no line %q", want)
		}
		delete(found, want)
	}
	for line := range found {
		t.Errorf("there is a line %q", line)
	}
}

// TestAuditWithoutTLS records the address of callers without certificates.
func TestAuditWithoutTLS(t *testing.T) {
	log, lis := newAuditFile(t), kittest.Listen(t)
	f := serveEcho(t, &echo{unary: same}, lis, log.set)
	conn, err := rpc.TCP().Dial(lis.Addr().String(), (*identity.Source)(nil).DialOption(identity.Allocator))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	f.conn = conn
	if _, err := f.call(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	f.stop()
	lines := log.lines()
	if len(lines) != 1 || lines[0].Identity != "" || lines[0].Serial != "" || !strings.HasPrefix(lines[0].Peer, "127.0.0.1:") {
		t.Errorf("got %+v", lines)
	}
}

// TestOperationsHaveLines checks that a call with operations has a line for each of them that is to
// be recorded, and that a fault in finding them leaves the line of the call.
func TestOperationsHaveLines(t *testing.T) {
	file := newAuditFile(t)
	f := serve(t, &echo{unary: func(_ context.Context, req *text) (*text, error) { return req, nil }}, func(o *rpc.ServerOptions) {
		file.set(o)
		o.Audit.Operations = func(_ string, request, response any) []rpc.Operation {
			switch req, _ := request.(*text); {
			case response == nil:
				return nil
			case req.Value == "broken":
				panic("told to")
			case req.Value == "three":
				return []rpc.Operation{
					{Method: unaryMethod, Object: audit.Object{Name: "a", Revision: 7}},
					{Method: "/reads", Object: audit.Object{Name: "b"}},
					{Method: "/reads", Object: audit.Object{Name: "c"}, Err: apierr.NotFound("Thing", "c")},
				}
			}
			return nil
		}
	})
	for _, request := range []string{"three", "none", "broken"} {
		if _, err := f.call(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, e := range file.lines() {
		got = append(got, fmt.Sprintf("%s %s %d %s %q %v", e.Method, e.Name, e.Revision, e.Code, e.Reason, e.Bulk))
	}
	want := []string{
		unaryMethod + ` a 7 OK "" true`, `/reads c 0 NOT_FOUND "Thing \"c\" not found" true`, unaryMethod + ` none 0 OK "" false`, unaryMethod + ` broken 0 OK "" false`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
