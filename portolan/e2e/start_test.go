package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/kittest"
)

// nowhere returns the flags of a daemon that finds none of the services that it needs. It listens
// on any free port.
func nowhere(t *testing.T, daemon string) []string {
	flags := []string{"-addr", "127.0.0.1:0", "-http-addr", "127.0.0.1:0", "-log-format", "json", "-nats-url", "nats://127.0.0.1:1"}
	switch daemon {
	case "registry":
		return append(flags, "-store", "sqlite:"+t.TempDir())
	case "allocator":
		return append(flags, "-registry", "127.0.0.1:1", "-data-dir", t.TempDir())
	case "dnssvc":
		return append(flags, "-registry", "127.0.0.1:1", "-listen", "127.0.0.1:0", "-lame-duck", "0s")
	case "nodeagent":
		return append(flags, "-registry", "127.0.0.1:1", "-proxy-mode", "userspace", "-healthz-addr", "")
	}
	return append(flags, "-registry", "127.0.0.1:1")
}

// refusal is a start that must fail.
type refusal struct {
	daemon string
	flags  []string // in addition to nowhere's flags, which they override
	code   int
	want   string // in the line with the reason
}

// check runs the daemon to its end. Besides log lines it must print one line, which states the
// fault.
func (r refusal) check(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(bin, r.daemon), append(nowhere(t, r.daemon), r.flags...)...)
	c.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := c.CombinedOutput()
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	var said []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "{") {
			said = append(said, strings.TrimSpace(line))
		}
	}
	if code != r.code || len(said) != 1 || !strings.HasPrefix(said[0], r.daemon+": ") || !strings.Contains(said[0], r.want) {
		t.Errorf("exit code %d, want %d and one line with %q:\n%s", code, r.code, r.want, out)
	}
}

// TestRefusesToStart checks that a fault that waiting cannot repair ends a daemon at once, with one
// line that states the fault and the remedy.
func TestRefusesToStart(t *testing.T) {
	for _, daemon := range daemons {
		t.Run(daemon, func(t *testing.T) {
			for name, r := range refusalsOf(t, daemon) {
				t.Run(name, r.check)
			}
		})
	}
}

// refusalsOf returns the refusals that all daemons share.
func refusalsOf(t *testing.T, daemon string) map[string]refusal {
	taken := kittest.Listen(t).Addr().String()
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	who := daemon
	if daemon == "nodeagent" || daemon == "edge" {
		who += "/n1"
	}
	certs := kittest.NewCertificates(t)
	ours, others := certs.Issue(who, time.Hour), kittest.NewCertificates(t).Issue(who, time.Hour)
	tls := func(cert, key, ca string) []string {
		return []string{"-tls-cert", cert, "-tls-key", key, "-tls-ca", ca}
	}
	inUse := "listen tcp " + taken + ": bind: address already in use: stop the program that has this port"
	cases := map[string]refusal{
		"port of the API":     {daemon, []string{"-addr", taken}, app.ExitError, "addr: " + inUse},
		"port of metrics":     {daemon, []string{"-http-addr", taken}, app.ExitError, "http-addr: " + inUse},
		"address of others":   {daemon, []string{"-addr", "0.0.0.0:0"}, app.ExitConfig, "tls-cert"},
		"unknown key":         {daemon, []string{"-config", file("nats-ulr: nats://127.0.0.1\n")}, app.ExitConfig, `unknown key "nats-ulr"; did you mean nats-url?`},
		"unknown flag":        {daemon, []string{"-nats-ulr=x"}, app.ExitUsage, "unknown flag -nats-ulr; did you mean -nats-url?"},
		"no certificate":      {daemon, tls("/nowhere/a.crt", ours.Key, ours.CA), app.ExitConfig, "/nowhere/a.crt"},
		"damaged certificate": {daemon, tls(file("x"), ours.Key, ours.CA), app.ExitConfig, "tls-cert"},
		"key of another":      {daemon, tls(ours.Cert, others.Key, ours.CA), app.ExitConfig, "tls-key"},
		"foreign authority":   {daemon, tls(ours.Cert, ours.Key, others.CA), app.ExitConfig, "tls-ca"},
	}
	switch daemon {
	case "dnssvc":
		cases["port of DNS"] = refusal{daemon, []string{"-listen", taken}, app.ExitError, "listen: " + inUse}
	case "nodeagent":
		cases["port of health checks"] = refusal{daemon, []string{"-healthz-addr", taken}, app.ExitError, "healthz-addr: " + inUse}
	}
	return cases
}

// TestRefusesTheStore checks that a registry ends at once if Postgres refuses its login, or if it
// is too old for its database.
func TestRefusesTheStore(t *testing.T) {
	postgres := kittest.NewCluster(t)
	right := postgres.Password(t, "portolan", "secret")
	// The export creates the tables.
	runProgramWell(t, "registry", "export", "-store-file", kittest.SecretFile(t, right), "-file", filepath.Join(t.TempDir(), "backup"))
	newer := postgres.Database(t)
	runProgramWell(t, "registry", "export", "-store-file", kittest.SecretFile(t, newer), "-file", filepath.Join(t.TempDir(), "backup"))
	conn, err := pgx.Connect(t.Context(), newer)
	if err != nil {
		t.Fatal(err)
	}
	const future = `INSERT INTO schema_migrations (component, version, name, checksum, applied_at) VALUES ('registry', 999, 'later', '', now())`
	_, err = conn.Exec(t.Context(), future)
	if err := errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		store string
		code  int
		want  string
	}{
		"wrong password":    {strings.ReplaceAll(right, "secret", "guess"), app.ExitConfig, `password authentication failed for user "portolan": correct the password in store`},
		"no such role":      {postgres.DSN("postgres") + " user=nobody password=x", app.ExitConfig, `password authentication failed for user "nobody"`},
		"no such database":  {postgres.DSN("nothing"), app.ExitConfig, `database "nothing" does not exist: make the database by CREATE DATABASE nothing OWNER postgres`},
		"not its database":  {strings.ReplaceAll(right, "dbname=portolan", "dbname=postgres"), app.ExitConfig, "ALTER DATABASE postgres OWNER TO portolan"},
		"newer schema":      {newer, app.ExitConfig, "database schema does not fit this program"},
		"no such file":      {"postgres://localhost/portolan?sslmode=verify-full&sslrootcert=/nowhere/ca.crt", app.ExitConfig, "/nowhere/ca.crt"},
		"nonsense":          {"mysql://x", app.ExitConfig, "store: must be"},
		"folder of another": {"sqlite:/proc/portolan-store", app.ExitError, "/proc/portolan-store"},
	} {
		t.Run(name, refusal{"registry", []string{"-store-file", kittest.SecretFile(t, c.store)}, c.code, c.want}.check)
	}
}

// runProgramWell runs a program that must succeed.
func runProgramWell(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, errOut, err := runProgram(t, "", filepath.Join(bin, program), args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, out, errOut)
	}
	return out
}

// TestStartsInAnyOrder starts all daemons without Postgres, NATS or the daemons that they need. It
// checks that each waits and logs the reason, and that after the start of Postgres and NATS all
// become ready without a restart.
func TestStartsInAnyOrder(t *testing.T) {
	postgres := kittest.NewCluster(t)
	store := postgres.Database(t)
	if err := postgres.Stop(); err != nil {
		t.Fatal(err)
	}
	s := separately(t, store, host)
	waiting := map[string][]string{ // reasons in the log of each daemon
		"registry":    {"waiting for the store"},
		"allocator":   {"nats not connected", "changes cannot be read from the registry"},
		"endpointctl": {"nats not connected", "changes cannot be read from the registry"},
		"lbctl":       {"nats not connected", "changes cannot be read from the registry"},
		"dnssvc":      {"nats not connected", "changes cannot be read from the registry"},
		"nodeagent":   {"nats not connected", "changes cannot be read from the registry"},
		"kubeapi":     {"nats not connected", "changes cannot be read from the registry"},
		"edge":        {"nats not connected", "changes cannot be read from the registry"},
	}
	started := map[string]*process{}
	for _, daemon := range []string{"kubeapi", "edge", "nodeagent", "dnssvc", "lbctl", "endpointctl", "allocator", "registry"} {
		started[daemon] = s.start(seat{daemon, host})
	}
	for daemon, messages := range waiting {
		for _, message := range messages {
			started[daemon].awaitLine(message, func(line string) bool {
				return strings.Contains(line, `"level":"WARN"`) && strings.Contains(line, message)
			})
		}
	}
	if err := s.ready(seat{"registry", host}); err == nil || !strings.Contains(err.Error(), "store: store unavailable") {
		t.Errorf("without Postgres the registry says %v", err)
	}
	for _, daemon := range []string{"endpointctl", "lbctl", "dnssvc", "nodeagent", "edge", "kubeapi"} {
		if err := s.ready(seat{daemon, host}); err == nil || !strings.Contains(err.Error(), "no snapshot from the registry") {
			t.Errorf("without a registry %s says %v", daemon, err)
		}
	}
	s.stop(seat{"registry", host}) // it is stopped while it waits
	started["registry"] = s.start(seat{"registry", host})
	if err := postgres.Start(); err != nil {
		t.Fatal(err)
	}
	s.startNATS()
	for _, daemon := range daemons {
		s.awaitReady(seat{daemon, host})
	}
	s.apply(`{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 8080}]}}`)
	var told []string // each reason is logged once
	for _, line := range started["registry"].said() {
		if strings.Contains(line, "waiting for the store") {
			told = append(told, line[strings.Index(line, `"err":`):])
		}
	}
	for i, why := range told {
		if i > 0 && why == told[i-1] {
			t.Errorf("said twice in turn: %s", why)
		}
		if strings.Contains(why, `\n`) {
			t.Errorf("an error of several lines: %s", why)
		}
	}
}

// TestColdStart starts all daemons at once, with Postgres and NATS running, and logs the time until
// all are ready. It checks that an outage that a daemon meets at its start is one warning.
func TestColdStart(t *testing.T) {
	s := separately(t, kittest.Postgres(t), host)
	s.startNATS()
	began := time.Now()
	for _, daemon := range daemons {
		s.start(seat{daemon, host})
	}
	for _, daemon := range daemons {
		s.awaitReady(seat{daemon, host})
	}
	t.Logf("all daemons are ready after %s", time.Since(began).Round(10*time.Millisecond))
	for at, p := range s.running {
		seen := map[string]bool{}
		for _, line := range p.said() {
			var entry struct{ Level, Msg string }
			if json.Unmarshal([]byte(line), &entry) != nil || entry.Level != "WARN" {
				continue
			}
			if seen[entry.Msg] {
				t.Errorf("%s warns again: %s", at.daemon, line)
			}
			seen[entry.Msg] = true
		}
	}
}
