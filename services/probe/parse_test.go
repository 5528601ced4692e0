package probe_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/probe"
)

func number(n int32) *corev1.IntOrString {
	return &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: n}}
}

func named(name string) *corev1.IntOrString {
	return &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: name}}
}

func httpGet(scheme, host string, port *corev1.IntOrString, path string) *corev1.Probe {
	return &corev1.Probe{Handler: &corev1.Probe_HttpGet{HttpGet: &corev1.HTTPGetAction{Scheme: scheme, Host: host, Port: port, Path: path}}}
}

func tcpSocket(host string, port *corev1.IntOrString) *corev1.Probe {
	return &corev1.Probe{Handler: &corev1.Probe_TcpSocket{TcpSocket: &corev1.TCPSocketAction{Host: host, Port: port}}}
}

func grpcCheck(port int32, service *string) *corev1.Probe {
	return &corev1.Probe{Handler: &corev1.Probe_Grpc{Grpc: &corev1.GRPCAction{Port: port, Service: service}}}
}

func exec(command ...string) *corev1.Probe {
	return &corev1.Probe{Handler: &corev1.Probe_Exec{Exec: &corev1.ExecAction{Command: command}}}
}

func ttl(seconds int32) *corev1.Probe {
	return &corev1.Probe{Handler: &corev1.Probe_Ttl{Ttl: &corev1.TTLAction{Seconds: seconds}}}
}

// with returns the probe with a period, a timeout, a delay, failures and successes.
func with(p *corev1.Probe, period, timeout, delay, failures, successes int32) *corev1.Probe {
	p.PeriodSeconds, p.TimeoutSeconds, p.InitialDelaySeconds, p.FailureThreshold, p.SuccessThreshold = period, timeout, delay, failures, successes
	return p
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]*corev1.Probe{
		"http://:8000/healthz":               httpGet("HTTP", "", number(8000), "/healthz"),
		"http://:8000":                       httpGet("HTTP", "", number(8000), "/"),
		"https://:8443/x?full=1&a=b":         httpGet("HTTPS", "", number(8443), "/x?full=1&a=b"),
		"HTTP://:web/healthz":                httpGet("HTTP", "", named("web"), "/healthz"),
		"http://10.0.0.1:80/":                httpGet("HTTP", "10.0.0.1", number(80), "/"),
		"http://[fd00::1]:80/":               httpGet("HTTP", "fd00::1", number(80), "/"),
		"http://web.example:80//a":           httpGet("HTTP", "web.example", number(80), "//a"),
		"tcp://:5432":                        tcpSocket("", number(5432)),
		"tcp://:db":                          tcpSocket("", named("db")),
		"tcp://127.0.0.1:65535":              tcpSocket("127.0.0.1", number(65535)),
		"grpc://:9000":                       grpcCheck(9000, nil),
		"grpc://:9000/":                      grpcCheck(9000, nil),
		"grpc://:9000/shop.Cart":             grpcCheck(9000, proto.String("shop.Cart")),
		"exec:check-db":                      exec("check-db"),
		"exec:check.sh --host a=b x":         exec("check.sh", "--host", "a=b", "x"),
		"exec:check --period period":         exec("check", "--period", "period"),
		"exec:check -v period=5s timeout=2s": with(exec("check", "-v"), 5, 2, 0, 0, 0),
		"ttl:30s":                            ttl(30),
		"ttl:1m30s":                          ttl(90),
		"  tcp://:80\tperiod=5s  timeout=2s failures=3 successes=1 delay=1m\n": with(tcpSocket("", number(80)), 5, 2, 60, 3, 1),
		"tcp://:80 delay=0s": tcpSocket("", number(80)),
	} {
		got, err := probe.Parse(text)
		if diff := cmp.Diff(want, got, protocmp.Transform()); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
	}
}

// TestParseFaults checks that an error has the line, its wrong part, and a correct form.
func TestParseFaults(t *testing.T) {
	t.Parallel()
	for text, parts := range map[string][]string{
		"":                                  {"empty", "write http://:8000/healthz"},
		"8000/healthz":                      {"no kind of check", "write http://"},
		"udp://:53":                         {`"udp" is no kind of check`, "tcp://:5432"},
		"http:8000":                         {"//", "write http://:PORT"},
		"http://:8000 healthz":              {`"healthz" is no option`, "period, timeout, failures, successes, delay"},
		"http://localhost/":                 {`"localhost" has no port`, "write http://:PORT"},
		"http://:/":                         {"no port"},
		"http://user@host:80/":              {`"user@host"`, "leave it out"},
		"http://:80/a#b":                    {"fragment"},
		"http://:80/%zz":                    {"path", "%zz", "%XX"},
		"http://:80?x":                      {"port", "80?x"},
		"http://:-1/":                       {"port -1"},
		"tcp://:65536":                      {"65536", "65535"},
		"tcp://:0":                          {"port 0"},
		"tcp://:a_b":                        {"tcpSocket.port", "a_b"},
		"tcp://:80/x":                       {`"/x"`, "no path"},
		"tcp://[::1":                        {"[::1"},
		"grpc://:api":                       {`"api"`, "number"},
		"grpc://10.0.0.1:80":                {`"10.0.0.1"`, "leave out"},
		"exec:":                             {`script ""`, "-check-dir"},
		"exec:/bin/sh -c true":              {`"/bin/sh"`, "plain file name"},
		"exec:../x":                         {`"../x"`, "plain file name"},
		"exec:.hidden":                      {"no dot"},
		`exec:a\b`:                          {"plain file name"},
		"exec:" + strings.Repeat("x", 300):  {"plain file name"},
		"exec:x" + strings.Repeat(" y", 65): {"exec.command", "65"},
		"ttl:":                              {"time to live", "write 5s"},
		"ttl:30":                            {`"30"`, "write 5s"},
		"ttl:0s":                            {"ttl.seconds", "between 1 and 86400"},
		"ttl:48h":                           {"ttl.seconds"},
		"ttl:500ms":                         {"whole seconds"},
		"ttl:30s period=5s":                 {"period", "no effect", "leave it out"},
		"ttl:30s x":                         {`"x" is no option`},
		"tcp://:80 perid=5s":                {`"perid=5s"`, "did you mean period?"},
		"tcp://:80 period":                  {"period", "write 5s"},
		"tcp://:80 period=0s":               {"period", "write 1s or more"},
		"tcp://:80 period=-5s":              {"period", "-5s"},
		"tcp://:80 period=1000000h":         {"period"},
		"tcp://:80 failures=0":              {"failures", "from 1 on"},
		"tcp://:80 successes=many":          {"successes", "many"},
		"tcp://:80 failures=99999999999":    {"failures"},
		"tcp://:80 timeout=1s timeout=2s":   {"timeout", "twice"},
		"tcp://:80 \xff":                    {"UTF-8"},
	} {
		got, err := probe.Parse(text)
		if err == nil {
			t.Errorf("%q became %v, want an error", text, got)
			continue
		}
		for _, part := range parts {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: the error %q has no %q", text, err, part)
			}
		}
	}
}
