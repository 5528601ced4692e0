package bench

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/soak"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/yardstick"
	"portolan.dev/services/object"
)

var (
	measure = flag.Bool("measure", false, "measure, which takes minutes")
	quick   = flag.Bool("quick", false, "measure in about a minute, less exactly")

	// Debian's NSD receives one datagram at a time.
	batchedNSD = flag.String("nsd", "", "an NSD configured with --enable-recvmmsg, to be measured too")
)

// source is a registry's log with n services, and the flags with which a daemon reaches it.
type source struct {
	*changestest.Log
	args []string
}

func newSource(t *testing.T, objects []object.Object) *source {
	t.Helper()
	log := changestest.New(t)
	log.Put(objects...)
	host := kittest.Host(t, rpc.TCP(), "")
	lis := kittest.Listen(t)
	srv := rpc.NewServer(rpc.ServerOptions{Log: host.Log, Metrics: host.Metrics, Health: host.Health, MaxMessage: 64 << 20})
	log.Register(srv)
	kittest.Run(t, "registry", func(ctx context.Context) error { return srv.Serve(ctx, lis) })
	return &source{Log: log, args: []string{
		"-registry=" + lis.Addr().String(), "-nats-url=" + log.URL(), "-nats-prefix=" + changestest.Prefix, "-pod-cidr=10.128.0.0/9",
	}}
}

// load is the load that dnsperf puts on one server at once.
type load struct {
	questions *questionFile
	tcp       bool
}

var (
	completed = regexp.MustCompile(`Queries completed:\s+(\d+)`)
	lost      = regexp.MustCompile(`Queries lost:\s+(\d+)`)
	codes     = regexp.MustCompile(`Response codes:\s+(.*)`)
	code      = regexp.MustCompile(`([A-Z]+) (\d+)`)
)

// checkCodes compares the response codes that dnsperf counted with the expected ones. An unanswered
// question may have any code.
func checkCodes(out []byte, q *questionFile) error {
	number := func(of *regexp.Regexp) int {
		found := of.FindSubmatch(out)
		if found == nil {
			return 0
		}
		n, _ := strconv.Atoi(string(found[1])) // the expression matches digits only
		return n
	}
	unanswered := number(lost)
	if unanswered > q.count/1000 {
		return fmt.Errorf("%d of %d questions were not answered", unanswered, q.count)
	}
	counted := map[string]int{}
	if line := codes.FindSubmatch(out); line != nil {
		for _, one := range code.FindAllSubmatch(line[1], -1) {
			counted[string(one[1])], _ = strconv.Atoi(string(one[2]))
		}
	}
	for name, n := range counted {
		if _, wanted := q.codes[name]; !wanted {
			return fmt.Errorf("%d questions were answered by %s", n, name)
		}
	}
	for name, want := range q.codes {
		if got := counted[name]; got > want || got < want-unanswered {
			return fmt.Errorf("%d questions were answered by %s, want %d (%d without an answer)", got, name, want, unanswered)
		}
	}
	return nil
}

// cost returns the CPU time of a server per 100,000 questions, in seconds.
func cost(t *testing.T, s *server, l load) float64 {
	t.Helper()
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-s", host, "-p", port, "-d", l.questions.name, "-c", "8", "-T", "1", "-q", "100", "-t", "2", "-Q", "1000000"}
	args = append(args, "-n", "1")
	if l.tcp {
		args = append(args, "-m", "tcp")
	}
	before := s.cpu()
	out, err := exec.Command("dnsperf", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("dnsperf: %v\n%s", err, out)
	}
	used := s.cpu() - before
	found := completed.FindSubmatch(out)
	if found == nil {
		t.Fatalf("dnsperf says\n%s", out)
	}
	if err := checkCodes(out, l.questions); err != nil {
		t.Fatalf("%s: %v\n%s", s.name, err, out)
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil || n == 0 {
		t.Fatalf("dnsperf says\n%s", out)
	}
	return used.Seconds() / float64(n) * 100000
}

// costs measures servers in turn and returns the median of each. Each round starts with another
// server, so that other load of the machine affects all alike.
func costs(t *testing.T, what string, servers []*server, loads func(s *server) load, rounds int) map[string]float64 {
	t.Helper()
	all := map[string][]float64{}
	for round := range rounds {
		for n := range servers {
			s := servers[(round+n)%len(servers)]
			all[s.name] = append(all[s.name], cost(t, s, loads(s)))
		}
	}
	medians := map[string]float64{}
	for _, s := range servers {
		slices.Sort(all[s.name])
		medians[s.name] = all[s.name][rounds/2]
		fmt.Printf("%-6s %-14s %.2f CPU s per 100k questions (%.2f-%.2f)\n", what, s.name, medians[s.name], all[s.name][0], all[s.name][rounds-1])
	}
	return medians
}

// toMeasure skips a test unless -measure is given.
func toMeasure(t *testing.T) {
	t.Helper()
	if !*measure {
		t.Skip("allowed: not told to measure; make bench-dnssvc does")
	}
}

// served is the latest serial number that a daemon is known to serve.
type served struct {
	conn *dns.Conn

	mu     sync.Mutex
	serial uint32
}

// wait waits until a revision is served. If several goroutines wait, one asks for all of them.
func (s *served) wait(ctx context.Context, revision uint32) error {
	client := &dns.Client{Timeout: 5 * time.Second}
	for {
		s.mu.Lock()
		if int32(s.serial-revision) >= 0 {
			s.mu.Unlock()
			return nil
		}
		reply, _, err := client.ExchangeWithConn(new(dns.Msg).SetQuestion("cluster.local.", dns.TypeSOA), s.conn)
		if err == nil && len(reply.Answer) == 1 {
			s.serial = reply.Answer[0].(*dns.SOA).Serial
		}
		s.mu.Unlock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// TestMeasureUnderChanges asks a million questions while a thousand services change per second, and
// checks every answer against a model. A change is complete once the serial number shows that the
// daemon serves it.
func TestMeasureUnderChanges(t *testing.T) {
	toMeasure(t)
	questions := 1000000
	if *quick {
		questions = 100000
	}
	src := newSource(t, world(1000))
	s := startDaemon(t, "portolan", src.args...)
	model := soak.NewModel("cluster.local.", 200)
	first := src.Put(model.Objects()...)
	s.waitFor(t, "svc-199.soak"+suffix)
	conn, err := (&dns.Client{}).Dial(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	serves := &served{conn: conn}
	apply := func(put, remove []object.Object) error {
		revision := src.Put(put...)
		for i, o := range remove {
			if deleted := src.Delete(object.KeyOf(o)); i == 0 {
				revision = deleted
			}
		}
		return serves.wait(t.Context(), uint32(revision))
	}
	report, err := soak.Run(t.Context(), soak.Config{
		Model: model, Addr: s.addr, Queries: questions, Clients: 8, Apply: apply, Changers: 8, Pace: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	seconds := report.Took.Seconds()
	fmt.Printf("%d questions under %.0f changes/s (%.0f revisions/s): none wrong, torn or lost, %d asked twice; p50 %s, p99 %s\n",
		report.Queries, float64(report.Changes)/seconds, float64(src.Revision()-first)/seconds, report.Repeated, report.P50, report.P99)
}

const debianNSD = "/usr/sbin/nsd"

func TestMeasure(t *testing.T) {
	toMeasure(t)
	for _, command := range []string{"dnsperf", debianNSD, "/usr/sbin/knotd"} {
		if _, err := exec.LookPath(command); err != nil {
			t.Fatalf("%s is needed (Debian: apt-get install dnsperf nsd knot)", command)
		}
	}
	rounds, count := 5, 200000
	if *quick {
		rounds, count = 3, 50000
	}
	small, large := newSource(t, world(1000)), newSource(t, world(10000))
	fast, ordinary := startDaemon(t, "portolan", small.args...), startDaemon(t, "ordinary", append(small.args, "-fast-path=false")...)
	many := startDaemon(t, "portolan 10k", large.args...)
	for _, s := range []*server{fast, ordinary, many} {
		s.waitFor(t, "svc-0.ns-0"+suffix)
	}
	files := zoneFiles(t, fast.addr, "cluster.local.", "96.10.in-addr.arpa.")
	others := []*server{startNSD(t, "nsd", debianNSD, "127.53.254.2", files), startKnot(t, files)}
	if *batchedNSD != "" {
		others = append(others, startNSD(t, "batched nsd", *batchedNSD, "127.53.254.4", files))
	}
	for _, s := range others {
		s.waitFor(t, "svc-0.ns-0"+suffix)
	}
	aFile, mixedFile, manyFile := questionsOf(t, 1000, count, "a"), questionsOf(t, 1000, count, ""), questionsOf(t, 10000, count, "")
	peers := append([]*server{ordinary, fast}, others...)
	a := costs(t, "A", peers, func(*server) load { return load{questions: aFile} }, rounds)
	mixed := costs(t, "mixed", append(slices.Clip(peers), many), func(s *server) load {
		if s == many {
			return load{questions: manyFile}
		}
		return load{questions: mixedFile}
	}, rounds)
	tcp := costs(t, "TCP", append([]*server{fast}, others...), func(*server) load { return load{questions: mixedFile, tcp: true} }, rounds)
	rss := many.rss()
	commit := streamToAnswer(t, small, fast)

	ratio := func(name string, value float64, target yardstick.Target) {
		fmt.Println(yardstick.Line(name, value, target))
	}
	ratio("cpu_vs_nsd_a", a["portolan"]/a["nsd"], yardstick.AtMost(1.3))
	ratio("cpu_vs_nsd_mixed", mixed["portolan"]/mixed["nsd"], yardstick.AtMost(1.3))
	if *batchedNSD != "" {
		ratio("cpu_vs_batched_nsd_a", a["portolan"]/a["batched nsd"], yardstick.Target{})
		ratio("cpu_vs_batched_nsd_mixed", mixed["portolan"]/mixed["batched nsd"], yardstick.Target{})
	}
	ratio("cpu_vs_knot_mixed", mixed["portolan"]/mixed["knot"], yardstick.Target{})
	ratio("cpu_vs_ordinary_mixed", mixed["portolan"]/mixed["ordinary"], yardstick.Target{})
	ratio("cpu_at_10k_vs_1k", mixed["portolan 10k"]/mixed["portolan"], yardstick.AtMost(1.1))
	ratio("tcp_cpu_vs_nsd", tcp["portolan"]/tcp["nsd"], yardstick.AtMost(1))
	ratio("rss_mb_10k", rss, yardstick.AtMost(100))
	ratio("stream_to_answer_p50_ms", float64(commit)/float64(time.Millisecond), yardstick.AtMost(5))
}

// streamToAnswer returns the median time from a change in the log of a registry in this process,
// through the stream, to the changed answer. make bench-registry measures it from a commit in
// Postgres.
func streamToAnswer(t *testing.T, src *source, s *server) time.Duration {
	t.Helper()
	client := &dns.Client{Timeout: time.Second}
	conn, err := client.Dial(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const path, name = "ns-0/svc-0", "svc-0.ns-0" + suffix
	var times []time.Duration
	for i := range 200 {
		want := fmt.Sprintf("10.96.255.%d", 1+i)
		start := time.Now()
		src.Put(dnstest.Service(path, want, "80:http", "443:https"))
		for {
			reply, _, err := client.ExchangeWithConn(new(dns.Msg).SetQuestion(name, dns.TypeA), conn)
			if err == nil && len(reply.Answer) == 1 && reply.Answer[0].(*dns.A).A.String() == want {
				break
			}
			if time.Since(start) > time.Minute {
				t.Fatalf("the change to %s does not come", want)
			}
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	fmt.Printf("stream to answer: p50 %s, p99 %s\n", times[len(times)/2], times[len(times)*99/100])
	return times[len(times)/2]
}
