package bench

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/services/object"
)

const suffix = ".svc.cluster.local."

// perService is the number of endpoints of a service.
const perService = 10

// world returns n services. Of ten, six have a cluster IP, three are headless, and one is an alias.
func world(n int) []object.Object {
	var all []object.Object
	for i := range n {
		path := fmt.Sprintf("ns-%d/svc-%d", i%50, i)
		switch i % 10 {
		case 9:
			all = append(all, dnstest.Service(path, fmt.Sprintf("=db-%d.example.com", i)))
			continue
		case 6, 7, 8:
			all = append(all, dnstest.Service(path, "None", "80:http", "443:https"))
		default:
			all = append(all, dnstest.Service(path, fmt.Sprintf("10.96.%d.%d", i/250, 1+i%250), "80:http", "443:https"))
		}
		args := []string{"8080:http/tcp", "8443:https/tcp"}
		// Nine tenths of the services have endpoints, which makes about ten per service overall.
		for e := range perService + 1 {
			k := i*(perService+1) + e
			args = append(args, fmt.Sprintf("10.%d.%d.%d", 128+k/62500, k/250%250, 1+k%250))
		}
		all = append(all, dnstest.Slice(path+fmt.Sprintf("/svc-%d-1", i), args...))
	}
	return all
}

// asker goes through the names of each kind in turn, so that every name is asked for.
type asker struct {
	services int
	next     map[string]int
}

// service returns the next service of a kind, that is, with a number that ends in one of the
// digits.
func (a *asker) service(kind string, digits ...int) (n int, name string) {
	k := a.next[kind]
	a.next[kind]++
	n = k/len(digits)%(a.services/10)*10 + digits[k%len(digits)]
	return n, fmt.Sprintf("svc-%d.ns-%d%s", n, n%50, suffix)
}

// Last digits of the numbers of services by kind: see world.
var (
	withIP   = []int{0, 1, 2, 3, 4, 5}
	headless = []int{6, 7, 8}
	aliases  = []int{9}
)

// ask returns the k-th of a hundred questions, and the response code of its answer.
func (a *asker) ask(k int, only string) (name, qtype, code string) {
	switch k %= 100; {
	case k < 40 || only == "a":
		_, name = a.service("A", withIP...)
		return name, "A", "NOERROR"
	case k < 60:
		_, name = a.service("AAAA", withIP...)
		return name, "AAAA", "NOERROR" // NODATA
	case k < 70:
		_, name = a.service("SRV", withIP...)
		return "_http._tcp." + name, "SRV", "NOERROR"
	case k < 80:
		_, name = a.service("headless", headless...)
		return name, "A", "NOERROR"
	case k < 90:
		n, _ := a.service("none", withIP...)
		// A search path makes such names.
		return fmt.Sprintf("www.example.com.ns-%d%s", n%50, suffix), "A", "NXDOMAIN"
	case k < 95:
		n, _ := a.service("PTR", withIP...)
		return fmt.Sprintf("%d.%d.96.10.in-addr.arpa.", 1+n%250, n/250), "PTR", "NOERROR"
	default:
		_, name = a.service("alias", aliases...)
		return name, "A", "NOERROR"
	}
}

// questionFile is a file of questions for dnsperf.
type questionFile struct {
	name  string
	count int
	codes map[string]int // number of answers by response code
}

// questionsOf writes questions to a file. The seed determines their order. 200,000 questions cover
// every name of 10,000 services.
func questionsOf(t *testing.T, services, count int, only string) *questionFile {
	t.Helper()
	q := &questionFile{name: filepath.Join(t.TempDir(), "questions"), count: count, codes: map[string]int{}}
	a := &asker{services: services, next: map[string]int{}}
	lines := make([]string, count)
	for k := range lines {
		name, qtype, code := a.ask(k, only)
		lines[k] = name + " " + qtype + "\n"
		q.codes[code]++
	}
	random := rand.New(rand.NewPCG(1, uint64(services)))
	random.Shuffle(count, func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	if err := os.WriteFile(q.name, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	return q
}

// TestEveryNameIsAsked counts the names in the questions of a whole measurement.
func TestEveryNameIsAsked(t *testing.T) {
	q := questionsOf(t, 10000, 200000, "")
	content, err := os.ReadFile(q.name)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]map[string]bool{}
	for line := range strings.Lines(string(content)) {
		name, qtype, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(name, "www.") {
			if kinds[qtype] == nil {
				kinds[qtype] = map[string]bool{}
			}
			kinds[qtype][name] = true
		}
	}
	for qtype, want := range map[string]int{"A": 10000, "AAAA": 6000, "SRV": 6000, "PTR": 6000} {
		if got := len(kinds[qtype]); got != want {
			t.Errorf("%s of %d names, want %d", qtype, got, want)
		}
	}
}

func TestCheckCodes(t *testing.T) {
	q := &questionFile{count: 1000, codes: map[string]int{"NOERROR": 900, "NXDOMAIN": 100}}
	for out, ok := range map[string]bool{
		"Queries lost: 0 (0.00%)\nResponse codes: NOERROR 900 (90.00%), NXDOMAIN 100 (10.00%)\n": true,
		"Queries lost: 1 (0.10%)\nResponse codes: NOERROR 899 (90.00%), NXDOMAIN 100 (10.00%)\n": true,
		"Queries lost: 0 (0.00%)\nResponse codes: NOERROR 899 (89.90%), NXDOMAIN 101 (10.10%)\n": false,
		"Queries lost: 0 (0.00%)\nResponse codes: NOERROR 900 (90.00%), SERVFAIL 100 (10.00%)\n": false,
		"Queries lost: 9 (0.90%)\nResponse codes: NOERROR 891 (90.00%), NXDOMAIN 100 (10.00%)\n": false,
		"": false,
	} {
		if err := checkCodes([]byte(out), q); (err == nil) != ok {
			t.Errorf("%q: %v, want all well %v", out, err, ok)
		}
	}
}

// zoneFiles copies zones from a server into files.
func zoneFiles(t *testing.T, addr string, zones ...string) map[string]string {
	t.Helper()
	files := map[string]string{}
	dir := t.TempDir()
	for _, zone := range zones {
		transfer := &dns.Transfer{DialTimeout: time.Minute, ReadTimeout: time.Minute}
		envelopes, err := transfer.In(new(dns.Msg).SetAxfr(zone), addr)
		if err != nil {
			t.Fatal(err)
		}
		files[zone] = filepath.Join(dir, zone+"zone")
		file, err := os.Create(files[zone])
		if err != nil {
			t.Fatal(err)
		}
		w := bufio.NewWriter(file)
		soas := 0
		for e := range envelopes {
			if e.Error != nil {
				t.Fatal(e.Error)
			}
			for _, rr := range e.RR {
				if rr.Header().Rrtype == dns.TypeSOA {
					if soas++; soas > 1 {
						continue // the SOA record at the end of the transfer
					}
				}
				fmt.Fprintln(w, rr)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return files
}
