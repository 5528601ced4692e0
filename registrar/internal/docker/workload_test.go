package docker

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registrar/internal/labels"
	"portolan.dev/registrar/source"
)

// read returns the workload of a container. The others run beside it.
func read(options Options, c *container, others ...*container) (*source.Workload, []source.Problem) {
	r := &reader{options: &options, signals: signals{}, now: time.Now(), lookUp: func(id string) *container {
		for _, other := range others {
			if other.ID == id {
				return other
			}
		}
		return nil
	}}
	load, wrong := r.workload(c)
	if load != nil {
		wrong = load.Problems
	}
	return load, wrong
}

// summary returns a workload as one line.
func summary(load *source.Workload) string {
	if load == nil {
		return "none"
	}
	var ports []string
	for _, p := range load.Ports {
		text := fmt.Sprintf("%s=%d", p.Name, p.Number)
		if p.ServicePort != 0 {
			text += fmt.Sprintf("(%d)", p.ServicePort)
		}
		ports = append(ports, text)
	}
	text := fmt.Sprintf("%s/%s %s %s", load.Namespace, load.Service, strings.Join(ports, ","), strings.Join(load.Addresses, ","))
	if load.HostNetwork {
		text += " host"
	}
	for _, name := range slices.Sorted(maps.Keys(load.Labels)) {
		text += " " + name + "=" + load.Labels[name]
	}
	if load.Weight != nil {
		text += fmt.Sprintf(" weight=%d", *load.Weight)
	}
	if load.Drain != 0 {
		text += " drain=" + load.Drain.String()
	}
	return text
}

type row struct {
	name   string
	change []func(*container)
	want   string
	// problems are texts of the expected problems: field, reason and parts of the message.
	problems []string
}

func check(t *testing.T, options Options, rows []row) {
	t.Helper()
	for _, test := range rows {
		t.Run(test.name, func(t *testing.T) {
			load, found := read(options, web(1, test.change...))
			if got := summary(load); got != test.want {
				t.Errorf("the workload is\n%s, want\n%s", got, test.want)
			}
			if len(found) != len(test.problems) {
				t.Fatalf("the problems are %v, want %q", found, test.problems)
			}
			for i, problem := range found {
				text := fmt.Sprintf("%s %s %s", problem.Field, problem.Reason, problem.Message)
				for _, part := range strings.Split(test.problems[i], " … ") {
					if !strings.Contains(text, part) {
						t.Errorf("problem %d is %q, want %q", i, text, part)
					}
				}
				if problem.Object != "web1" || problem.Message == "" {
					t.Errorf("problem %d names the object %q and says %q", i, problem.Object, problem.Message)
				}
			}
		})
	}
}

func unlabelled(c *container) { c.Config.Labels = map[string]string{} }

func variables(list ...string) func(*container) {
	return func(c *container) { c.Config.Env = append(c.Config.Env, list...) }
}

func networks(text string) func(*container) {
	return func(c *container) {
		c.NetworkSettings.Networks = nil
		if err := json.Unmarshal([]byte(text), &c.NetworkSettings.Networks); err != nil {
			panic(err)
		}
	}
}

func published(text string) func(*container) {
	return func(c *container) {
		c.Config.Labels["portolan.publish"] = "true"
		if err := json.Unmarshal([]byte(text), &c.NetworkSettings.Ports); err != nil {
			panic(err)
		}
	}
}

func does(changes ...func(*container)) []func(*container) { return changes }

func TestLabels(t *testing.T) {
	check(t, Options{}, []row{
		{"defaults", nil, "/web tcp-8000=8000 172.17.0.1", nil},
		{"others' labels", does(label("traefik.enable", "true"), label("portolanish.service", "x"), label("io.kubernetes.pod.name", "p")), "/web tcp-8000=8000 172.17.0.1", nil},
		{"no labels", does(unlabelled), "none", nil},
		{"all", does(label("portolan.namespace", "shop"), label("portolan.port.http", "80"), label("portolan.port.dns", "53/udp"), label("portolan.labels.tier", "front"),
			label("portolan.weight", "0"), label("portolan.drain", "15s")), "shop/web dns=53,http=80 172.17.0.1 tier=front weight=0 drain=15s", nil},
		{"range", does(label("portolan.port.rtp", "8000-8002/udp")), "/web udp-8000=8000,udp-8001=8001,udp-8002=8002 172.17.0.1", nil},
		{"exposed", does(exposes("80/tcp", "53/udp", "53/tcp", "132/sctp")), "/web tcp-53=53,udp-53=53,tcp-80=80,sctp-132=132 172.17.0.1", nil},
		{"stop timeout", does(func(c *container) { seconds := 60; c.Config.StopTimeout = &seconds }), "/web tcp-8000=8000 172.17.0.1 drain=1m0s", nil},
		{"drain before stop timeout", does(label("portolan.drain", "5s"), func(c *container) { seconds := 60; c.Config.StopTimeout = &seconds }), "/web tcp-8000=8000 172.17.0.1 drain=5s", nil},
		{"endless stop timeout", does(func(c *container) { seconds := 1 << 40; c.Config.StopTimeout = &seconds }), "/web tcp-8000=8000 172.17.0.1 drain=1h0m0s", nil},
		{"ignored", does(label("portolan.ignore", "true")), "none", nil},
		{"not ignored", does(label("portolan.ignore", "false")), "/web tcp-8000=8000 172.17.0.1", nil},
	})
}

func TestBadLabels(t *testing.T) {
	many := make([]string, labels.MaxPorts+1)
	for i := range many {
		many[i] = fmt.Sprintf("%d/tcp", i+1)
	}
	good := "/web tcp-8000=8000 172.17.0.1"
	check(t, Options{}, []row{
		{"no service", does(unlabelled, label("portolan.weight", "1")), "none", []string{"portolan.service NoServiceName … add the label"}},
		{"empty service", does(label("portolan.service", "")), "none", []string{"portolan.service InvalidTerm"}},
		{"bad service", does(label("portolan.service", "Web_1")), "none", []string{"portolan.service InvalidTerm"}},
		{"long service", does(label("portolan.service", strings.Repeat("x", 5000))), "none", []string{"portolan.service InvalidTerm"}},
		{"bad namespace", does(label("portolan.namespace", "my_shop")), "none", []string{"portolan.namespace InvalidTerm … so it is not registered"}},
		{"bad weight", does(label("portolan.weight", "65536")), good, []string{"portolan.weight InvalidTerm … between 0 and 65535"}},
		{"bad drain", does(label("portolan.drain", "10")), good, []string{"portolan.drain InvalidTerm … such as 10s"}},
		{"bad label", does(label("portolan.labels.a b", "x")), good, []string{"portolan.labels.a b InvalidTerm"}},
		{"bad port", does(label("portolan.port.http", "http")), "none", []string{"portolan.port.http InvalidTerm … such as 8000 or 53/udp", " NoPorts"}},
		{"bad port name", does(label("portolan.port.HTTP!", "80")), "none", []string{"portolan.port.HTTP! InvalidTerm", " NoPorts"}},
		{"one bad port", does(label("portolan.port.http", "80"), label("portolan.port.x", "0")), "/web http=80 172.17.0.1", []string{"portolan.port.x InvalidTerm"}},
		{"same name", does(label("portolan.port.all", "80-81"), label("portolan.port.tcp-80", "8080")), "/web tcp-80=80,tcp-81=81 172.17.0.1", []string{`portolan.port.tcp-80 InvalidTerm … another port has the name "tcp-80"`}},
		{"unknown word", does(label("portolan.prot.http", "80")), good, []string{"portolan.prot.http InvalidTerm … is not known"}},
		{"bad publish", does(label("portolan.publish", "maybe")), good, []string{"portolan.publish InvalidTerm … true or false"}},
		{"bad ignore", does(label("portolan.ignore", "maybe")), good, []string{"portolan.ignore InvalidTerm … true or false"}},
		{"no ports", does(exposes()), "none", []string{" NoPorts … portolan.port.NAME"}},
		{"too many ports", does(exposes(many...)), "none", []string{" Ambiguous … 101 ports"}},
	})
}

func TestManyProblems(t *testing.T) {
	c := web(1)
	for n := range 1000 {
		c.Config.Labels[fmt.Sprintf("portolan.%s%d", strings.Repeat("x", 1000), n)] = ""
	}
	load, found := read(Options{}, c)
	if load == nil || len(found) != maxProblems || !strings.Contains(found[maxProblems-1].Message, "1000 problems") {
		t.Errorf("there are %d problems, the last one is %v", len(found), found[len(found)-1])
	}
	for _, problem := range found {
		if len(problem.Field) > 250 {
			t.Errorf("a field has %d bytes", len(problem.Field))
		}
	}
}

func TestReadiness(t *testing.T) {
	health := func(status string) func(*container) {
		return func(c *container) { c.State.Health = &struct{ Status string }{status} }
	}
	for _, test := range []struct {
		name   string
		change func(*container)
		ready  bool
		reason string
	}{
		{"no check", func(*container) {}, true, ""},
		{"none", health("none"), true, ""},
		{"healthy", health("healthy"), true, ""},
		{"starting", health("starting"), false, "has not succeeded"},
		{"unhealthy", health("unhealthy"), false, "fails"},
		{"a state that is not known", health("odd"), false, "fails"},
		{"paused", func(c *container) { c.State.Status = "paused" }, false, "paused"},
		{"paused and healthy", func(c *container) { health("healthy")(c); c.State.Status = "paused" }, false, "paused"},
	} {
		load, _ := read(Options{}, web(1, test.change))
		if load.Ready != test.ready || !strings.Contains(load.Reason, test.reason) || load.Probe != nil {
			t.Errorf("%s: ready is %t because %q", test.name, load.Ready, load.Reason)
		}
	}
}

func TestAddresses(t *testing.T) {
	both := networks(`{"a":{"IPAddress":"10.1.0.2"},"b":{"IPAddress":"10.2.0.2","GlobalIPv6Address":"fd00::2"}}`)
	check(t, Options{}, []row{
		{"two families", does(networks(`{"a":{"IPAddress":"10.1.0.2","GlobalIPv6Address":"fd00::2"}}`)), "/web tcp-8000=8000 10.1.0.2,fd00::2", nil},
		{"IPv6 only", does(networks(`{"a":{"IPAddress":"","GlobalIPv6Address":"fd00::2"}}`)), "/web tcp-8000=8000 fd00::2", nil},
		{"several networks", does(both), "none", []string{"portolan.network Ambiguous … a, b"}},
		{"named network", does(both, label("portolan.network", "b")), "/web tcp-8000=8000 10.2.0.2,fd00::2", nil},
		{"network of the project", does(networks(`{"shop_a":{"IPAddress":"10.1.0.2"},"shop_b":{"IPAddress":"10.2.0.2"}}`), label("portolan.network", "b"), label(composeProject, "shop")),
			"/web tcp-8000=8000 10.2.0.2", nil},
		{"another network", does(both, label("portolan.network", "c")), "none", []string{"portolan.network NoAddress … only to a, b"}},
		{"empty network", does(both, label("portolan.network", "")), "none", []string{"portolan.network NoAddress"}},
		{"no networks", does(networks(`{}`)), "none", []string{" NoAddress … docker network connect"}},
		{"network none", does(networks(`{"none":{"IPAddress":""}}`)), "none", []string{" NoAddress … portolan.publish=true"}},
		{"no usable address", does(networks(`{"a":{"IPAddress":"127.0.0.1","GlobalIPv6Address":"fe80::1"}}`)), "none", []string{" NoAddress"}},
		{"no address at all", does(networks(`{"a":{"IPAddress":"nonsense","GlobalIPv6Address":"fd00::2%eth0"}}`)), "none", []string{" NoAddress"}},
		{"host network", does(func(c *container) { c.HostConfig.NetworkMode = "host" }, networks(`{"host":{"IPAddress":""}}`)), "/web tcp-8000=8000  host", nil},
	})
	check(t, Options{Network: "b"}, []row{
		{"default network", does(both), "/web tcp-8000=8000 10.2.0.2,fd00::2", nil},
		{"label before default", does(both, label("portolan.network", "a")), "/web tcp-8000=8000 10.1.0.2", nil},
		{"not in the default", nil, "/web tcp-8000=8000 172.17.0.1", nil},
	})
}

func TestNetworkOfAnotherContainer(t *testing.T) {
	c := web(1, networks(`{}`), func(c *container) { c.HostConfig.NetworkMode = "container:" + idOf(2) })
	load, found := read(Options{}, c, web(2, unlabelled))
	if got := summary(load); got != "/web tcp-8000=8000 172.17.0.2" || len(found) > 0 {
		t.Errorf("the workload is %s with problems %v", got, found)
	}
	load, found = read(Options{}, c)
	if load != nil || len(found) != 1 || found[0].Reason != source.ReasonNoAddress {
		t.Errorf("without the other container the workload is %s with problems %v", summary(load), found)
	}
	host := web(2, unlabelled, func(c *container) { c.HostConfig.NetworkMode = "host" })
	if load, _ := read(Options{}, c, host); summary(load) != "/web tcp-8000=8000  host" {
		t.Errorf("the workload is %s, want one on the host network", summary(load))
	}
}

func TestPublished(t *testing.T) {
	two := exposes("80/tcp", "443/tcp")
	rows := []row{
		{"all addresses", does(published(`{"8000/tcp":[{"HostIp":"0.0.0.0","HostPort":"49153"},{"HostIp":"::","HostPort":"49153"}]}`)), "/web tcp-8000=49153(8000) 192.0.2.1,2001:db8::1 host", nil},
		{"IPv4 only", does(published(`{"8000/tcp":[{"HostIp":"0.0.0.0","HostPort":"80"}]}`)), "/web tcp-8000=80(8000) 192.0.2.1 host", nil},
		{"IPv6 only", does(published(`{"8000/tcp":[{"HostIp":"::","HostPort":"80"}]}`)), "/web tcp-8000=80(8000) 2001:db8::1 host", nil},
		{"no address in the answer", does(published(`{"8000/tcp":[{"HostIp":"","HostPort":"80"}]}`)), "/web tcp-8000=80(8000) 192.0.2.1 host", nil},
		{"one address", does(published(`{"8000/tcp":[{"HostIp":"198.51.100.7","HostPort":"80"}]}`)), "/web tcp-8000=80(8000) 198.51.100.7 host", nil},
		{"other numbers", does(published(`{"8000/tcp":[{"HostIp":"0.0.0.0","HostPort":"49153"},{"HostIp":"::","HostPort":"49154"}]}`)), "/web tcp-8000=49153(8000) 192.0.2.1 host",
			[]string{"portolan.publish PublishedTwice … only IPv4"}},
		{"loopback", does(published(`{"8000/tcp":[{"HostIp":"127.0.0.1","HostPort":"80"}]}`)), "none", []string{"portolan.publish NotPublished … 8000/tcp"}},
		{"not published", does(published(`{"8000/tcp":null}`)), "none", []string{"portolan.publish NotPublished … 8000/tcp"}},
		{"garbage", does(published(`{"8000/tcp":[{"HostIp":"x","HostPort":"80"},{"HostIp":"0.0.0.0","HostPort":"0"},{"HostIp":"0.0.0.0","HostPort":"99999"}]}`)), "none",
			[]string{"portolan.publish NotPublished"}},
		{"one of two", does(two, published(`{"80/tcp":[{"HostIp":"0.0.0.0","HostPort":"8080"}],"443/tcp":null}`)), "/web tcp-80=8080(80) 192.0.2.1 host", []string{"NotPublished … 443/tcp"}},
		{"two addresses", does(two, published(`{"80/tcp":[{"HostIp":"192.0.2.8","HostPort":"80"}],"443/tcp":[{"HostIp":"192.0.2.9","HostPort":"443"}]}`)), "none",
			[]string{"portolan.publish Ambiguous … 192.0.2.8, 192.0.2.9"}},
		{"one of two at all addresses", does(two, published(`{"80/tcp":[{"HostIp":"192.0.2.8","HostPort":"80"}],"443/tcp":[{"HostIp":"0.0.0.0","HostPort":"443"}]}`)),
			"/web tcp-80=80(80),tcp-443=443(443) 192.0.2.8 host", nil},
		{"twice", does(published(`{"8000/tcp":[{"HostIp":"0.0.0.0","HostPort":"9000"},{"HostIp":"0.0.0.0","HostPort":"8000"}]}`)), "/web tcp-8000=8000(8000) 192.0.2.1 host", nil},
		{"named", does(label("portolan.port.http", "8000"), published(`{"8000/tcp":[{"HostIp":"0.0.0.0","HostPort":"80"}]}`)), "/web http=80(8000) 192.0.2.1 host", nil},
		{"host network", does(published(`{}`), func(c *container) { c.HostConfig.NetworkMode = "host" }), "/web tcp-8000=8000  host", nil},
	}
	check(t, Options{NodeAddresses: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::1")}}, rows)
	check(t, Options{}, []row{{"the node's addresses", rows[0].change, "/web tcp-8000=49153(8000)  host", nil}})
	check(t, Options{NodeAddresses: []netip.Addr{netip.MustParseAddr("2001:db8::1")}}, []row{{"no address of the family", rows[1].change, "none", []string{"portolan.publish NoAddress … IPv4 only"}}})
}

func portText(port *corev1.IntOrString) string {
	if name := port.GetName(); name != "" {
		return name
	}
	return strconv.Itoa(int(port.GetNumber()))
}

func TestProbes(t *testing.T) {
	publish := published(`{"8000/tcp":[{"HostIp":"0.0.0.0","HostPort":"49153"}]}`)
	for _, test := range []struct {
		check     string
		published bool
		want      string // port of the check; empty: there is none
	}{
		{"http://:8000/health", false, "8000"}, {"http://:9000/health", false, "9000"}, {"nonsense", false, ""},
		{"http://:8000/health", true, "49153"}, {"https://:8000", true, "49153"}, {"tcp://:8000", true, "49153"}, {"grpc://:8000", true, "49153"},
		{"http://:tcp-8000/", true, "tcp-8000"}, {"http://192.0.2.1:8000/", true, "8000"}, {"tcp://192.0.2.1:8000", true, "8000"},
		{"http://:9000/", true, ""}, {"grpc://:9000", true, ""}, {"tcp://:9000", true, ""}, {"nonsense", true, ""},
	} {
		changes := does(label("portolan.ready", test.check))
		if test.published {
			changes = append(changes, publish)
		}
		load, found := read(Options{}, web(1, changes...))
		port := ""
		switch tcp, http, grpc := load.Probe.GetTcpSocket(), load.Probe.GetHttpGet(), load.Probe.GetGrpc(); {
		case tcp != nil:
			port = portText(tcp.GetPort())
		case http != nil:
			port = portText(http.GetPort())
		case grpc != nil:
			port = strconv.Itoa(int(grpc.GetPort()))
		}
		never := test.want == "" && !load.Ready && strings.Contains(load.Reason, "portolan.ready") && len(found) == 1 && found[0].Field == "portolan.ready"
		if port != test.want || (port == "") != never {
			t.Errorf("%s: the port of the check is %q, want %q; ready is %t because %q, with problems %v", test.check, port, test.want, load.Ready, load.Reason, found)
		}
	}
	if load, _ := read(Options{}, web(1, label("portolan.ready", "exec:check"), publish)); load.Probe.GetExec() == nil {
		t.Error("a check by a script is left out")
	}
}

func TestServiceVariables(t *testing.T) {
	two := exposes("80/tcp", "443/tcp")
	check(t, Options{}, []row{
		{"name", does(unlabelled, variables("PATH=/bin", "SERVICE_NAME=db")), "/db tcp-8000=8000 172.17.0.1", nil},
		{"label before environment", does(unlabelled, variables("SERVICE_NAME=db"), label("SERVICE_NAME", "cache")), "/cache tcp-8000=8000 172.17.0.1", nil},
		{"our label alone", does(variables("SERVICE_NAME=db", "SERVICE_8000_NAME=http", "SERVICE_TAGS=a", "SERVICE_IGNORE=1")), "/web tcp-8000=8000 172.17.0.1", nil},
		{"our other labels", does(unlabelled, variables("SERVICE_NAME=db"), label("portolan.weight", "3")), "/db tcp-8000=8000 172.17.0.1 weight=3", nil},
		{"ports", does(unlabelled, two, variables("SERVICE_NAME=db", "SERVICE_80_NAME=http", "SERVICE_443_NAME=https")), "/db http=80,https=443 172.17.0.1", nil},
		{"port of UDP", does(unlabelled, exposes("53/udp"), variables("SERVICE_NAME=dns", "SERVICE_53_NAME=domain")), "/dns domain=53 172.17.0.1", nil},
		{"service of a port", does(unlabelled, two, variables("SERVICE_80_NAME=shop")), "/shop tcp-80=80 172.17.0.1", nil},
		{"service of two ports", does(unlabelled, two, variables("SERVICE_80_NAME=shop", "SERVICE_443_NAME=shop")), "/shop tcp-80=80,tcp-443=443 172.17.0.1", nil},
		{"two services", does(unlabelled, two, variables("SERVICE_80_NAME=shop", "SERVICE_443_NAME=admin")), "none", []string{"SERVICE_80_NAME Ambiguous … set SERVICE_NAME"}},
		{"ignored", does(unlabelled, variables("SERVICE_NAME=db", "SERVICE_IGNORE=true")), "none", nil},
		{"ignored port", does(unlabelled, two, variables("SERVICE_NAME=db", "SERVICE_443_IGNORE=true")), "/db tcp-80=80 172.17.0.1", nil},
		{"bad name", does(unlabelled, variables("SERVICE_NAME=My DB")), "none", []string{"SERVICE_NAME InvalidTerm"}},
		{"bad name of a port", does(unlabelled, variables("SERVICE_NAME=db", "SERVICE_8000_NAME=My Port")), "/db tcp-8000=8000 172.17.0.1", []string{"SERVICE_8000_NAME InvalidTerm"}},
		{"port that is none", does(unlabelled, variables("SERVICE_NAME=db", "SERVICE_99999_NAME=http")), "/db tcp-8000=8000 172.17.0.1", []string{"SERVICE_99999_NAME InvalidTerm"}},
		{"no effect", does(unlabelled, variables("SERVICE_NAME=db", "SERVICE_TAGS=a,b", "SERVICE_ID=x", "SERVICE_8000_CHECK_SCRIPT=x", "SERVICE_REGION=us", "SERVICE_HOST=h")),
			"/db tcp-8000=8000 172.17.0.1", []string{"SERVICE_8000_CHECK_SCRIPT NoEffect … portolan.ready", "SERVICE_ID NoEffect", "SERVICE_TAGS NoEffect … portolan.labels.NAME"}},
		{"check of no port", does(unlabelled, two, variables("SERVICE_NAME=db", "SERVICE_CHECK_TCP=true")), "/db tcp-80=80,tcp-443=443 172.17.0.1", []string{"SERVICE_CHECK_TCP Ambiguous … SERVICE_PORT_CHECK_TCP"}},
		{"other variables", does(unlabelled, variables("SERVICE_HOST=h", "SERVICE_PORT=80", "SERVICE_TAGS=x", "KUBERNETES_SERVICE_HOST=h", "SERVICE_")), "none", nil},
		{"empty", does(unlabelled, variables("SERVICE_NAME=", "SERVICE_80_NAME=")), "none", nil},
	})
	check(t, Options{NoServiceVariables: true}, []row{{"switched off", does(unlabelled, variables("SERVICE_NAME=db"), label("SERVICE_NAME", "db")), "none", nil}})
}

func TestServiceChecks(t *testing.T) {
	for variable, want := range map[string]string{
		"SERVICE_80_CHECK_HTTP=/health": "http://:80/health", "SERVICE_80_CHECK_HTTP=health": "http://:80/health", "SERVICE_80_CHECK_HTTPS=/": "https://:80/",
		"SERVICE_5432_CHECK_TCP=true": "tcp://:5432", "SERVICE_CHECK_HTTP=/": "http://:8000/",
	} {
		var p problems
		w := (&Options{}).labelsOf(web(1, unlabelled, variables("SERVICE_NAME=db", variable)), &p)
		if got := w.values["ready"]; got != want || len(p.list) > 0 {
			t.Errorf("%s becomes %q with problems %v, want %q", variable, got, p.list, want)
		}
	}
}

func TestCompose(t *testing.T) {
	of := func(service, project string) []func(*container) {
		return does(unlabelled, label(composeService, service), label(composeProject, project))
	}
	check(t, Options{}, []row{{"without the option", of("web", "shop"), "none", nil}})
	check(t, Options{ComposeNames: true}, []row{
		{"names", of("web", "shop"), "shop/web tcp-8000=8000 172.17.0.1", nil},
		{"labels first", append(of("web", "shop"), label("portolan.service", "front"), label("portolan.namespace", "prod")), "prod/front tcp-8000=8000 172.17.0.1", nil},
		{"ignored", append(of("web", "shop"), label("portolan.ignore", "true")), "none", nil},
		{"no ports", append(of("web", "shop"), exposes()), "none", nil},
		{"no ports and a label", append(of("web", "shop"), exposes(), label("portolan.weight", "1")), "none", []string{" NoPorts"}},
		{"one-off", append(of("web", "shop"), label(composeOneOff, "True")), "none", nil},
		{"a container of docker run", does(unlabelled), "none", nil},
		{"bad service", of("web_1", "shop"), "none", []string{composeService + " InvalidTerm"}},
		{"bad project", of("web", "my_shop"), "none", []string{composeProject + " InvalidTerm"}},
	})
	load, _ := read(Options{}, web(1, label(composeProject, "shop")))
	if load.Origin != "compose project shop" {
		t.Errorf("the origin is %q", load.Origin)
	}
}
