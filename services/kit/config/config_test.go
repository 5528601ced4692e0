package config_test

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"portolan.dev/services/kit/config"
)

type common struct {
	Addr  string `flag:"addr" default:"127.0.0.1:0" usage:"where to listen"`
	Debug bool   `flag:"debug" default:"false" usage:"say more"`
}

type settings struct {
	common   `default:"addr=127.0.0.1:7400"`
	Store    string         `flag:"store" usage:"connection string"`
	Workers  int            `flag:"workers" default:"4" usage:"how many"`
	Lease    time.Duration  `flag:"lease" default:"40s" usage:"how long"`
	Ratio    float64        `flag:"ratio" default:"0.5" usage:"how much"`
	Port     uint16         `flag:"port" default:"53" usage:"which"`
	VIPs     []netip.Prefix `flag:"vips" default:"10.96.0.0/16,fd00::/108" usage:"pools"`
	Names    []string       `flag:"names" usage:"search list"`
	DNS      netip.AddrPort `flag:"dns" usage:"upstream"`
	internal int            //nolint:unused // fields without a tag are left alone
	Hook     func()
}

func (s *settings) Validate() error {
	if s.Workers > 100 {
		return errors.New("workers: at most 100")
	}
	return nil
}

// load calls config.Load with an environment from a map and a file from a text.
func load(t testing.TB, args []string, env map[string]string, file string) (settings, string, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.(interface{ TempDir() string }).TempDir(), "test.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Chdir(filepath.Dir(path))
		args = append(args, "-config", "test.yaml")
	}
	var got settings
	var out strings.Builder
	err := config.Load("dns-svc", &got, args, func(k string) (string, bool) { v, ok := env[k]; return v, ok }, &out)
	return got, out.String(), err
}

func TestPrecedence(t *testing.T) {
	const env = "PORTOLAN_DNS_SVC_LEASE"
	tests := []struct {
		name string
		args []string
		env  map[string]string
		file string
		want time.Duration
	}{
		{"default", nil, nil, "", 40 * time.Second},
		{"file", nil, nil, "lease: 1s", time.Second},
		{"env", nil, map[string]string{env: "2s"}, "lease: 1s", 2 * time.Second},
		{"flag", []string{"-lease", "3s"}, map[string]string{env: "2s"}, "lease: 1s", 3 * time.Second},
		{"last flag", []string{"--lease=3s", "-lease=4s"}, nil, "", 4 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := load(t, tt.args, tt.env, tt.file)
			if err != nil || got.Lease != tt.want {
				t.Errorf("got %s %v, want %s", got.Lease, err, tt.want)
			}
		})
	}
}

func TestEveryKind(t *testing.T) {
	got, _, err := load(t, []string{"-debug", "-names", "a, b,"}, nil, `
# all of it
store: "host=/run user=x"
workers: 7
ratio: 0.25
port: 65535
vips: [10.0.0.0/8, fd01::/64]
dns: "[::1]:53"
addr: ~
`)
	if err != nil {
		t.Fatal(err)
	}
	want := settings{
		common: common{Addr: "", Debug: true},
		Store:  "host=/run user=x", Workers: 7, Lease: 40 * time.Second, Ratio: 0.25, Port: 65535,
		VIPs:  []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd01::/64")},
		Names: []string{"a", "b"}, DNS: netip.MustParseAddrPort("[::1]:53"),
	}
	if diff := cmp.Diff(want.flat(), got.flat()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// flat returns the fields as comparable values.
func (s settings) flat() []any {
	return []any{s.Addr, s.Debug, s.Store, s.Workers, s.Lease, s.Ratio, s.Port, s.VIPsText(), s.Names, s.DNS.String()}
}

func (s settings) VIPsText() (out []string) {
	for _, p := range s.VIPs {
		out = append(out, p.String())
	}
	return out
}

func TestDefaults(t *testing.T) {
	var got settings
	got.Store = "left over"
	config.Defaults(&got)
	want := []any{"127.0.0.1:7400", false, "", 4, 40 * time.Second, 0.5, uint16(53), []string{"10.96.0.0/16", "fd00::/108"}, []string(nil), "invalid AddrPort"}
	if diff := cmp.Diff(want, got.flat()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestProblems(t *testing.T) {
	tests := []struct {
		name string
		args []string
		env  map[string]string
		file string
		kind error
		want []string // lines after the first
	}{
		{
			"all at once, with origin and nearest name",
			[]string{"-workers", "many"},
			map[string]string{"PORTOLAN_DNS_SVC_LEASE": "40", "PORTOLAN_DNS_SVC_DEBUG": "maybe"},
			"stroe: x\nport: 65536\nport: 1\nvips: {a: b}\nratio: ''\n",
			config.ErrInvalid,
			[]string{
				`test.yaml:1: unknown key "stroe"; did you mean store?`,
				`port (test.yaml:2): "65536" is not a valid whole number: value out of range`,
				`test.yaml:3: key "port" is given twice`,
				`vips (test.yaml:4): want a value or a list of values`,
				`ratio (test.yaml:5): "" is not a valid number: invalid syntax`,
				`debug (env PORTOLAN_DNS_SVC_DEBUG): "maybe" is not a valid bool: want true or false`,
				`lease (env PORTOLAN_DNS_SVC_LEASE): "40" is not a valid duration: want a number with a unit, such as 1m30s`,
				`workers (flag -workers): "many" is not a valid whole number: invalid syntax`,
			},
		},
		{
			"usage", []string{"-leese", "3s", "--check", "-lease"}, nil, "", config.ErrUsage,
			[]string{
				"unknown flag -leese; did you mean -lease?",
				`unexpected argument "3s"`,
				"unknown flag -check; did you mean -check-config?",
				"flag -lease needs a value",
			},
		},
		{"nothing near", nil, nil, "entirely-different: 1", config.ErrInvalid, []string{`test.yaml:1: unknown key "entirely-different"`}},
		{
			"addresses", []string{"-vips=10.0.0.0/8,10.0.0.1", "-dns", "localhost:53"}, nil, "", config.ErrInvalid,
			[]string{
				`vips (flag -vips): "10.0.0.1" is not a valid CIDR: netip.ParsePrefix("10.0.0.1"): no '/'`,
				`dns (flag -dns): "localhost:53" is not a valid address:port: ParseAddr("localhost"): unable to parse IP`,
			},
		},
		{"rule of the daemon", []string{"-workers=101"}, nil, "", config.ErrInvalid, []string{"workers: at most 100"}},
		{"not a mapping", nil, nil, "- a", config.ErrInvalid, []string{"test.yaml:1: want key: value lines"}},
		{"no file", []string{"-config", "/does/not/exist"}, nil, "", config.ErrInvalid, []string{"config: open /does/not/exist: no such file or directory"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, out, err := load(t, tt.args, tt.env, tt.file)
			if !errors.Is(err, tt.kind) {
				t.Fatalf("got %v, want %v", err, tt.kind)
			}
			want := tt.kind.Error() + ": " + tt.want[0]
			if len(tt.want) > 1 {
				want = strings.Join(append([]string{tt.kind.Error() + ":"}, tt.want...), "\n")
			}
			if diff := cmp.Diff(want, err.Error()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if out != "" {
				t.Errorf("printed %q beside the error", out)
			}
		})
	}
}

func TestCheckAndPrint(t *testing.T) {
	_, out, err := load(t, []string{"-check-config"}, nil, "lease: 1s")
	if !errors.Is(err, config.ErrDone) || out != "configuration is valid\n" {
		t.Errorf("check: %q %v", out, err)
	}
	_, out, err = load(t, []string{"-print-config", "-debug=false", "-names=no,yes"},
		map[string]string{"PORTOLAN_DNS_SVC_STORE": "postgres://u:hush@db/x"}, "lease: 1s")
	want := `addr: 127.0.0.1:7400 # default
debug: false # flag -debug
store: postgres://u:xxxxx@db/x # env PORTOLAN_DNS_SVC_STORE, password masked
workers: 4 # default
lease: 1s # test.yaml:1
ratio: 0.5 # default
port: 53 # default
vips: 10.96.0.0/16,fd00::/108 # default
names: no,yes # flag -names
dns: "" # default
`
	if !errors.Is(err, config.ErrDone) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestPasswordsAreMasked(t *testing.T) {
	for _, dsn := range []string{
		"postgres://u:hush@db/x?sslmode=disable", "nats://a:hush@h1,nats://b:hush@h2", "host=db password=hush user=u",
		"host=db password='hush hush'", "https://h/x?token=hush&a=b",
		"postgres://u:hush%zz@db/x", "postgres://u:hu/hush@db/x", "postgres://u:hush@hush@db/x", "nats://a:hu,hush@h1,nats://b@h2",
		"cannot parse postgres://u:hush@db:port/x",
	} {
		_, out, _ := load(t, []string{"-print-config"}, map[string]string{"PORTOLAN_DNS_SVC_STORE": dsn}, "")
		if strings.Contains(out, "hush") || !strings.Contains(out, "password masked") {
			t.Errorf("%s was printed as\n%s", dsn, out)
		}
		_, _, err := load(t, []string{"-store", dsn}, nil, "")
		if !errors.Is(err, config.ErrInvalid) || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "PORTOLAN_DNS_SVC_STORE") {
			t.Errorf("%s in a flag: %v", dsn, err)
		}
	}
	for _, dsn := range []string{"postgres://u@db/x?sslmode=disable", "sqlite:/var/lib/x", "host=db user=u", "nats://h1:4222,nats://h2:4222", "10.0.0.1:80", "http://[::1]:80/@"} {
		if masked, has := config.Redact(dsn); has {
			t.Errorf("%s has a password: %s", dsn, masked)
		}
	}
}

// TestPrintedIsAccepted checks that -config accepts the output of -print-config and reads the same
// values from it.
func TestPrintedIsAccepted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "printed.yaml")
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`[ -~]{0,12}`)
		args := []string{
			"-store=" + text.Draw(rt, "store"),
			"-names=" + text.Draw(rt, "names"),
			"-lease=" + time.Duration(rapid.Int64().Draw(rt, "lease")).String(),
			"-port=" + rapid.StringMatching(`[1-5][0-9]{0,4}`).Draw(rt, "port"),
		}
		none := func(string) (string, bool) { return "", false }
		var first, second settings
		if err := config.Load("x", &first, args, none, io.Discard); err != nil {
			rt.Fatal(err)
		}
		var out strings.Builder
		if err := config.Load("x", &first, append(args, "-print-config"), none, &out); !errors.Is(err, config.ErrDone) {
			rt.Fatal(err)
		}
		if strings.Contains(out.String(), "password masked") {
			rt.Skip("not the same, by intent")
		}
		if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
			rt.Fatal(err)
		}
		if err := config.Load("x", &second, []string{"-config", file}, none, io.Discard); err != nil {
			rt.Fatalf("%v\n%s", err, out.String())
		}
		if diff := cmp.Diff(first.flat(), second.flat()); diff != "" {
			rt.Fatalf("-first +second:\n%s\n%s", diff, out.String())
		}
	})
}

func TestHelpNamesEverything(t *testing.T) {
	_, out, err := load(t, []string{"-nonsense", "-h"}, nil, "")
	if !errors.Is(err, config.ErrDone) {
		t.Fatal(err)
	}
	for _, want := range []string{
		"-config FILE", "PORTOLAN_DNS_SVC_CONFIG", "-check-config", "-print-config",
		"  -lease DURATION\n        how long (env PORTOLAN_DNS_SVC_LEASE, default \"40s\")\n",
		"  -debug\n", "-vips LIST-OF-CIDR", "default \"127.0.0.1:7400\"",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("help lacks %q:\n%s", want, out)
		}
	}
}

func TestFileFromTheEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("workers: 9"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, _, err := load(t, nil, map[string]string{"PORTOLAN_DNS_SVC_CONFIG": path}, "")
	if err != nil || got.Workers != 9 {
		t.Errorf("got %d, %v", got.Workers, err)
	}
}

func TestMistakesInTheProgramPanic(t *testing.T) {
	for name, cfg := range map[string]any{
		"no pointer": settings{},
		"twice": &struct {
			A string `flag:"a"`
			B string `flag:"a"`
		}{},
		"reserved": &struct {
			A string `flag:"config"`
		}{},
		"type": &struct {
			A map[string]string `flag:"a"`
		}{},
		"default": &struct {
			A int `flag:"a" default:"x"`
		}{},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			config.Defaults(cfg)
		}()
	}
}

func TestFlags(t *testing.T) {
	flags := config.Flags("dns-svc", &settings{})
	want := []config.Flag{
		{Name: "addr", Env: "PORTOLAN_DNS_SVC_ADDR", Default: "127.0.0.1:7400", Usage: "where to listen"},
		{Name: "debug", Env: "PORTOLAN_DNS_SVC_DEBUG", Default: "false", Usage: "say more"},
		{Name: "store", Env: "PORTOLAN_DNS_SVC_STORE", Usage: "connection string"},
	}
	if len(flags) != 10 {
		t.Errorf("%d flags, want 10", len(flags))
	}
	if diff := cmp.Diff(want, flags[:3]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
