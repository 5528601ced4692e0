package healthcheck_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"portolan.dev/nodeagent/internal/healthcheck"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// address returns an address that no other test uses, with a free port.
func address(t *testing.T) netip.AddrPort {
	t.Helper()
	addr := netip.AddrFrom4([4]byte{127, 100 + byte(rand.N(20)), byte(rand.N(256)), byte(1 + rand.N(254))})
	lis, err := net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	return lis.Addr().(*net.TCPAddr).AddrPort()
}

var web = object.Name{Namespace: "ns", Name: "web"}

func get(at netip.AddrPort) (int, string, http.Header, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	res, err := client.Get("http://" + at.String() + "/any/path")
	if err != nil {
		return 0, "", nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), res.Header, err
}

func TestAnswers(t *testing.T) {
	at := address(t)
	var healthy atomic.Bool
	healthy.Store(true)
	s := healthcheck.New(healthcheck.Options{Healthy: healthy.Load, Report: func(object.Name, uint16, error) {}})
	kittest.Run(t, "health checks", s.Run)
	s.SetAddresses([]netip.Addr{at.Addr()})
	expect := func(what string, code int, body string) {
		t.Helper()
		gotCode, gotBody, header, err := get(at)
		if err != nil || gotCode != code || gotBody != body {
			t.Errorf("%s: %d %s %v, want %d %s", what, gotCode, gotBody, err, code, body)
		}
		if header.Get("Content-Type") != "application/json" || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", what, header)
		}
	}
	const form = `{"service":{"namespace":"ns","name":"web"},"localEndpoints":%d,"serviceProxyHealthy":%t}`

	s.Set(web, &plan.HealthCheck{Port: at.Port(), Local: 2})
	expect("two backends", 200, fmt.Sprintf(form, 2, true))
	s.Set(web, &plan.HealthCheck{Port: at.Port()})
	expect("none", 503, fmt.Sprintf(form, 0, true))
	s.Set(web, &plan.HealthCheck{Port: at.Port(), Local: 1})
	healthy.Store(false)
	expect("unhealthy", 503, fmt.Sprintf(form, 1, false))
	healthy.Store(true)
	s.Drain(true)
	expect("draining", 503, fmt.Sprintf(form, 1, false))
	s.Drain(false)
	expect("no longer draining", 200, fmt.Sprintf(form, 1, true))

	s.Set(web, nil)
	if _, _, _, err := get(at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the service went: %v, want refused", err)
	}
}

func TestAddressesChange(t *testing.T) {
	a := address(t)
	b := netip.AddrPortFrom(a.Addr().Next(), a.Port())
	s := healthcheck.New(healthcheck.Options{Healthy: func() bool { return true }, Report: func(object.Name, uint16, error) {}})
	kittest.Run(t, "health checks", s.Run)
	s.Set(web, &plan.HealthCheck{Port: a.Port(), Local: 1})
	s.SetAddresses([]netip.Addr{a.Addr()})
	if code, _, _, err := get(a); code != 200 {
		t.Errorf("first address: %d %v", code, err)
	}
	s.SetAddresses([]netip.Addr{b.Addr()})
	if _, _, _, err := get(a); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("old address: %v, want refused", err)
	}
	if code, _, _, err := get(b); code != 200 {
		t.Errorf("new address: %d %v", code, err)
	}
}

func TestTakenPortIsReportedAndTriedAgain(t *testing.T) {
	at := address(t)
	foreign, err := net.Listen("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	reports := make(chan error, 1000)
	s := healthcheck.New(healthcheck.Options{
		Healthy: func() bool { return true }, RetryEvery: 5 * time.Millisecond,
		Report: func(name object.Name, port uint16, err error) {
			if name == web && port == at.Port() {
				reports <- err
			}
		},
	})
	kittest.Run(t, "health checks", s.Run)
	s.SetAddresses([]netip.Addr{at.Addr()})
	s.Set(web, &plan.HealthCheck{Port: at.Port(), Local: 1})
	if err := kittest.Receive(t, "a report", reports); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("reported %v", err)
	}
	foreign.Close()
	for err := kittest.Receive(t, "a report", reports); err != nil; err = kittest.Receive(t, "a report", reports) {
	}
	if code, _, _, err := get(at); code != 200 {
		t.Errorf("after the port was freed: %d %v", code, err)
	}
}

// TestAPortIsFreeAtOnce opens and closes a port faster than its server begins to serve.
func TestAPortIsFreeAtOnce(t *testing.T) {
	at := address(t)
	s := healthcheck.New(healthcheck.Options{Healthy: func() bool { return true }, Report: func(_ object.Name, _ uint16, err error) {
		if err != nil {
			t.Error(err)
		}
	}})
	kittest.Run(t, "health checks", s.Run)
	s.SetAddresses([]netip.Addr{at.Addr()})
	for range 50 {
		s.Set(web, &plan.HealthCheck{Port: at.Port(), Local: 1})
		s.Set(web, nil)
	}
}
