package systemd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAssignments(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    []assignment
	}{
		"empty":                    {"", nil},
		"sections":                 {"[Unit]\nA=1\n[Service]\nA=2\n\tB = 3 = 4 \n", []assignment{{"Unit", "A", "1"}, {"Service", "A", "2"}, {"Service", "B", "3 = 4"}}},
		"comments":                 {"[Service]\n#A=1\n ; A=2\nA=3#4\n", []assignment{{"Service", "A", "3#4"}}},
		"continued":                {"[Service]\nA=1 \\\n# B=2\n  3\\\n4\nB=5\n", []assignment{{"Service", "A", "1    3 4"}, {"Service", "B", "5"}}},
		"ends in a continued line": {"[Service]\nA=1\\", []assignment{{"Service", "A", "1"}}},
		"escaped backslash":        {"[Service]\nA=1\\\\\nB=2", []assignment{{"Service", "A", `1\\`}, {"Service", "B", "2"}}},
		"Windows":                  {"[Service]\r\nA=1\\\r\n2\r\n", []assignment{{"Service", "A", "1 2"}}},
		"unreadable":               {"[Service\nA\n[Service]\nA=\n", []assignment{{"Service", "A", ""}}},
	} {
		if got := assignments(c.content); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestReadUnitFile(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{"web.service": "text", "large.service": strings.Repeat("#", maxFileBytes+1)} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(os.DevNull, filepath.Join(root, "masked.service")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"web.service": "text", "missing.service": "", "masked.service": ""} {
		if got, err := readUnitFile(root, "/"+name); got != want || err != nil {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	if _, err := readUnitFile(root, "/large.service"); err == nil || !strings.Contains(err.Error(), "/large.service has more than") {
		t.Errorf("a file that is too large: %v", err)
	}
}

func TestExpand(t *testing.T) {
	const unit = `shop-front\x2dend@eu-west\x2d1.service`
	for value, want := range map[string]string{
		"": "", "a": "a", "100%%": "100%", "%n": unit, "%N": `shop-front\x2dend@eu-west\x2d1`, "%p": `shop-front\x2dend`, "%P": "shop/front-end",
		"%j": `front\x2dend`, "%J": "front-end", "%i": `eu-west\x2d1`, "%I": "eu/west-1", "x%iy%%": `xeu-west\x2d1y%`,
	} {
		if got, err := expand(value, unit); got != want || err != nil {
			t.Errorf("%s: %q %v, want %q", value, got, err, want)
		}
	}
	for value, part := range map[string]string{"5%": "ends in %", "%z": "specifier %z is not known", "%H": "not known"} {
		if got, err := expand(value, unit); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %q %v", value, got, err)
		}
	}
}
