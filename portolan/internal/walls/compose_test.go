package walls

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// stubEngine is a docker command that prints the client's next report at each call, and the last
// one repeatedly.
const stubEngine = `#!/usr/bin/env bash
[ "$2" = logs ] || exit 0
dir=$(dirname "$0")
head -n1 "$dir/reports"
if [ "$(wc -l <"$dir/reports")" -gt 1 ]; then sed -i 1d "$dir/reports"; fi
`

// TestComposeCounts runs a stage of the scripts of deploy/compose with reports of a client that
// does not exist.
func TestComposeCounts(t *testing.T) {
	const start = `{"asked":1000,"failed":7,"retrying":0,"retried":50,"slowest":"1ms","answers":{"hello from web-1":943}}`
	for name, c := range map[string]struct {
		reports []string
		ok      bool
		says    string
	}{
		"all is well": {
			[]string{start, start, `{"asked":1200,"failed":7,"retrying":0,"retried":56,"answers":{}}`}, true,
			"200 requests, 0 failed, 3.0 % of the attempts repeated (6)",
		},
		"a request failed": {
			[]string{start, start, `{"asked":1200,"failed":8,"retrying":0,"retried":50,"answers":{}}`}, false, "FAILED: requests failed",
		},
		"too many attempts were repeated": {
			[]string{start, start, `{"asked":1200,"failed":7,"retrying":0,"retried":61,"answers":{}}`}, false, "FAILED: more than 5 % of the attempts were repeated",
		},
		"no report at all": {
			[]string{"the client does not start"}, false, "FAILED: a report of the client did not come about",
		},
		"no report after the beginning": {
			[]string{start, start, "the client has died"}, false, "FAILED: 100 new requests did not come about",
		},
		"an earlier request fails late": {
			[]string{
				start, `{"asked":1050,"failed":7,"retrying":1,"retried":50,"answers":{}}`,
				`{"asked":1100,"failed":8,"retrying":0,"retried":50,"answers":{}}`, `{"asked":1300,"failed":8,"retrying":0,"retried":50,"answers":{}}`,
			}, true, "200 requests, 0 failed",
		},
		"an earlier request that never ends": {
			[]string{start, `{"asked":1050,"failed":7,"retrying":1,"retried":50,"answers":{}}`}, false, "FAILED: the end of earlier requests did not come about",
		},
		"no new requests": {
			[]string{start}, false, "FAILED: 100 new requests did not come about",
		},
		"a client that began anew": {
			[]string{start, start, `{"asked":900,"failed":0,"retrying":0,"retried":0,"answers":{}}`}, false, "FAILED: 100 new requests did not come about",
		},
		"a report without the failures": {
			[]string{start, start, `{"asked":1200,"retrying":0,"retried":50,"answers":{}}`}, false, "FAILED: the client's report has no failed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write := func(file, text string, mode os.FileMode) {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), mode); err != nil {
					t.Fatal(err)
				}
			}
			write("docker", stubEngine, 0o700)
			write("reports", strings.Join(c.reports, "\n")+"\n", 0o600)
			if _, err := os.ReadFile(deployed("compose", "lib.sh")); err != nil { // an input of this test
				t.Fatal(err)
			}
			patience := "60" // seconds, which a busy machine needs
			if strings.HasSuffix(c.says, "did not come about") {
				patience = "1"
			}
			script := exec.CommandContext(t.Context(), "bash", "-c", `. "$0"; stage; passed 100; summary`, deployed("compose", "lib.sh"))
			script.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "PATIENCE="+patience)
			out, err := script.CombinedOutput()
			if (err == nil) != c.ok || !strings.Contains(string(out), c.says) {
				t.Errorf("it ended with %v, want success %v and %q:\n%s", err, c.ok, c.says, out)
			}
		})
	}
}
