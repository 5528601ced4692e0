package bench

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/services/object"
)

const suffix = ".svc.cluster.local."

// perService is how many endpoints a service has.
const perService = 10

// world has n services: of ten, six have a cluster IP, three are headless, one is an alias.
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
		for e := range perService + 1 { // nine tenths of the services have endpoints: about ten for each of all
			k := i*(perService+1) + e
			args = append(args, fmt.Sprintf("10.%d.%d.%d", 128+k/62500, k/250%250, 1+k%250))
		}
		all = append(all, dnstest.Slice(path+fmt.Sprintf("/svc-%d-1", i), args...))
	}
	return all
}

// question asks for what the n-th service has.
func questions(services int, random *rand.Rand, only string) (name, qtype string) {
	i := random.IntN(services)
	i -= i % 10
	name = func(i int) string { return fmt.Sprintf("svc-%d.ns-%d%s", i, i%50, suffix) }(i)
	if only == "a" {
		return name, "A"
	}
	headless, alias := fmt.Sprintf("svc-%d.ns-%d%s", i+6, (i+6)%50, suffix), fmt.Sprintf("svc-%d.ns-%d%s", i+9, (i+9)%50, suffix)
	switch n := random.IntN(100); {
	case n < 40:
		return name, "A"
	case n < 60:
		return name, "AAAA" // NODATA
	case n < 70:
		return "_http._tcp." + name, "SRV"
	case n < 80:
		return headless, "A"
	case n < 90:
		return fmt.Sprintf("www.example.com.ns-%d%s", i%50, suffix), "A" // what a search path makes of it: NXDOMAIN
	case n < 95:
		return fmt.Sprintf("%d.%d.96.10.in-addr.arpa.", 1+i%250, i/250), "PTR"
	default:
		return alias, "A"
	}
}

// questionFile writes questions for dnsperf.
func questionFile(t *testing.T, services int, only string) string {
	t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(services)))
	file, err := os.Create(filepath.Join(t.TempDir(), "questions"))
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(file)
	for range 50000 {
		name, qtype := questions(services, random, only)
		fmt.Fprintln(w, name, qtype)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Name()
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
						continue // the one that ends the transfer
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
