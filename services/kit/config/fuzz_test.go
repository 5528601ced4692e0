package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"portolan.dev/services/kit/config"
)

// FuzzLoad loads a configuration from a file, two variables of the environment and a command line.
// Either Load returns a short error of one of the two kinds, or loading the output of -print-config
// gives the same settings.
func FuzzLoad(f *testing.F) {
	f.Add("store: a\nworkers: 3\nvips: [10.0.0.0/8, fd00::/64]\nnames: [a, b]\nlease: 1m30s\n", "5", "0.25", "-port=54\n-debug")
	f.Add("", "", "x", "-h")
	f.Add("workers: 101", "", "", "")
	f.Add("a: &a [*a]", "1", "1", "-workers")
	f.Add("store: \"#\"\nnames: ['a b', ~, null]\ndns: '[::1]:53'", "007", "1e400", "--lease\n1h")
	f.Add("? [a]\n: b", "-1", "NaN", "-print-config")
	f.Add("store: \"\\x00\\n\\u2028\"\n", "1", "1", "-store=\xff")
	dir := f.TempDir()
	load := func(t *testing.T, file string, env map[string]string, args ...string) (got settings, out string, err error) {
		t.Helper()
		path := filepath.Join(dir, "fuzz.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		err = config.Load("dns-svc", &got, append([]string{"-config", path}, args...), func(k string) (string, bool) { v, ok := env[k]; return v, ok }, &text)
		return got, text.String(), err
	}
	f.Fuzz(func(t *testing.T, file, workers, ratio, line string) {
		var args []string
		if line != "" {
			args = strings.Split(line, "\n")
		}
		for _, arg := range args {
			if strings.HasPrefix(strings.TrimLeft(arg, "-"), "config") {
				return // another file of this machine
			}
		}
		env := map[string]string{"PORTOLAN_DNS_SVC_WORKERS": workers, "PORTOLAN_DNS_SVC_RATIO": ratio}
		got, _, err := load(t, file, env, args...)
		if errors.Is(err, config.ErrDone) {
			return
		}
		if err != nil {
			if !errors.Is(err, config.ErrUsage) && !errors.Is(err, config.ErrInvalid) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		_, printed, err := load(t, file, env, append(args, "-print-config")...)
		if !errors.Is(err, config.ErrDone) {
			t.Fatal(err)
		}
		again, _, err := load(t, printed, nil)
		if err != nil || got.Ratio == got.Ratio && !reflect.DeepEqual(got, again) { // NaN equals nothing
			t.Fatalf("%+v\nprinted as\n%s\ncame back as\n%+v, %v", got, printed, again, err)
		}
	})
}
