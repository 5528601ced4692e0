package workload

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"portolan.dev/services/kinds"
	"portolan.dev/services/spec"
)

// FuzzOptions describes a pod by any options of the command line. The options are refused, or the
// pod has the ports and the probe that they name, and the registry's own rules find nothing wrong
// with their numbers.
func FuzzOptions(f *testing.F) {
	f.Add("/usr/bin/My_Server.sh", "http=8080", "", "http/healthz", "", "10.64.0.9")
	f.Add("a", "53/udp", "53", "", "", "")
	f.Add("", "x=65536/QUIC", "", "", "80", "::1%eth0")
	f.Add("ü/ß", "=1", "", "80", "", "::ffff:1.2.3.4")
	f.Add("/", "a=+1", "", "", "65536", "1.2.3.04")
	f.Add("x", "a=b=1", "0", "", "", "")
	f.Fuzz(func(t *testing.T, program, port, tcp, http, grpc, address string) {
		o := Options{Command: []string{program}, Ports: []string{port}, ReadyTCP: tcp, ReadyHTTP: http, ReadyGRPC: grpc, Addresses: []string{address}}
		pod, err := o.pod()
		if err != nil {
			return
		}
		main := pod.GetSpec().GetContainers()[0]
		p := main.GetPorts()[0]
		again, err := parsePort(fmt.Sprintf("%s=%d/%s", p.GetName(), p.GetContainerPort(), spec.EnumName(p.GetProtocol())))
		if err != nil || !proto.Equal(again, p) {
			t.Fatalf("%q became %v, and then %v, %v", port, p, again, err)
		}
		if (tcp+http+grpc == "") != (main.GetReadinessProbe() == nil) {
			t.Fatalf("%q, %q and %q became %v", tcp, http, grpc, main.GetReadinessProbe())
		}
		kind := kinds.Of(pod)
		kind.Default(pod)
		kind.PrepareCreate(pod)
		for _, v := range kind.Validate(pod, spec.Rules{}) {
			if strings.HasSuffix(v.Field, "containerPort") || strings.HasSuffix(v.Field, "protocol") || strings.Contains(v.Field, "readinessProbe") || v.Field == "metadata.generateName" {
				t.Fatalf("the pod of %q is refused: %s %s", program+" "+port, v.Field, v.Message)
			}
		}
	})
}

// FuzzResolvConf reads any resolv.conf of the host. The search path of a program has no more domains than
// the C library reads and begins with Portolan's domains, and the file that is written for the program has
// this search path.
func FuzzResolvConf(f *testing.F) {
	for _, text := range []string{
		"nameserver 192.0.2.1\n", "domain example.com\nsearch a.example b.example\n", "search .\n", "search a b c d e f g h\n", "search\ta\v b\r\n", "search " + strings.Repeat("x", 1<<17), "search \xff\x00 \u2028",
	} {
		f.Add(text)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		host, own := filepath.Join(dir, "host.conf"), filepath.Join(dir, "own.conf")
		if err := os.WriteFile(host, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		config := ResolverConfigFor([]string{"10.96.0.10"}, "shop", "cluster.local.", searchOf(host))
		if len(config.Search) > maxSearch || !slices.Equal(config.Search[:3], []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local"}) {
			t.Fatalf("%q became %q", text, config.Search)
		}
		if err := os.WriteFile(own, []byte(config.ResolvConf()), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := searchOf(own); !slices.Equal(got, config.Search) {
			t.Fatalf("%q is written, %q is read", config.Search, got)
		}
	})
}
