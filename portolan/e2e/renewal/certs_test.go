package renewal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/authority"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// copies copies certificates to a folder that has no key of an authority, as machines have it.
func (l *lab) copies(t *testing.T, files ...identity.Files) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		for _, path := range []string{f.Cert, f.Key, f.CA} {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func issuerOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := authority.ParseCert(data)
	if err != nil {
		t.Fatal(err)
	}
	return cert.Issuer.CommonName
}

// TestCertsRenewAtTheRegistry renews the certificate of a monitor as a timer on the machine of
// Prometheus does, and tries the same with a viewer's.
func TestCertsRenewAtTheRegistry(t *testing.T) {
	l := install(t, time.Hour, nil)
	dir := l.copies(t, l.Issue("monitor", time.Hour), l.Issue("viewer", time.Hour))
	renew := func(args ...string) (string, error) {
		out, err := labtest.Command(t, "portolan", append([]string{"--server", l.RegistryAt().String(), "--certs", dir, "certs", "renew"}, args...)).CombinedOutput()
		return string(out), err
	}
	const authority, issuer = "Portolan authority of portolan", "Portolan issuer of portolan"
	if out, err := renew(); err != nil || issuerOf(t, filepath.Join(dir, "monitor.crt")) != authority {
		t.Errorf("renewed before its time: %v\n%s", err, out)
	}
	if out, err := renew("--force"); err != nil || issuerOf(t, filepath.Join(dir, "monitor.crt")) != issuer || issuerOf(t, filepath.Join(dir, "viewer.crt")) != authority {
		t.Errorf("renewal of all: %v\n%s", err, out)
	}
	if out, err := renew("viewer", "--force"); err == nil || !strings.Contains(out, "a registry renews no certificates of the role viewer") {
		t.Errorf("renewal of a viewer: %v\n%s", err, out)
	}
	monitor := identity.Files{Cert: filepath.Join(dir, "monitor.crt"), Key: filepath.Join(dir, "monitor.key"), CA: filepath.Join(dir, "ca.crt")}
	answer, err := l.HTTPAs(monitor, identity.Registry).Get("https://" + l.RegistryAt().Addr().String() + ":7500/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != 200 {
		t.Errorf("metrics with the renewed certificate: %s", answer.Status)
	}
}

// TestRunRenewsTheWorkloadsCertificate runs a program for longer than its certificate is valid.
func TestRunRenewsTheWorkloadsCertificate(t *testing.T) {
	l := install(t, life, nil)
	dir := l.copies(t, l.Issue("workload/n1/default", life/2))
	process := labtest.Start(t, "run", "portolan", l.Nodes[0].Namespace, []string{
		"--server", l.RegistryAt().String(), "--certs", dir, "run", "--allocator", l.AllocatorAt().String(), "--name", "web", "--node", "n1", "--service-links=false",
		"--nameserver", "", "--pod-ip", l.Nodes[0].Addresses[0].String(), "--", "sleep", "3600",
	})
	cert := filepath.Join(dir, "workload-n1@default.crt")
	kittest.Eventually(t, "the renewed certificate", func() error {
		if issuerOf(t, cert) != "Portolan issuer of portolan" {
			return errors.New("it is still the first one")
		}
		return nil
	})
	process.Stop()
	// The pod is deleted with the renewed certificate, or it would stay.
	kittest.Eventually(t, "the end of the pod", func() error {
		answer, err := registryv1.NewPodServiceClient(l.Conn).ListPods(t.Context(), &registryv1.ListPodsRequest{Namespace: "default"})
		if err == nil && len(answer.GetPods()) > 0 {
			err = errors.New("it is there")
		}
		return err
	})
}
