package walls

import (
	"cmp"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ownVersions lists the go.mod files that may require other versions than the others: which modules
// begin with one of the given prefixes, and the reason.
var ownVersions = map[string]struct {
	prefixes []string
	reason   string
}{
	"tools/oldclient": {[]string{"k8s.io/", "sigs.k8s.io/"}, "its subject is an old client of Kubernetes"},
	"tools/compose2":  {[]string{""}, "CI does not build it, and it requires two hundred modules that nothing else needs"},
}

var requirement = regexp.MustCompile(`(?m)^(?:require)?\s+(\S+) (v\S+)`)

// goMods returns the folders of the repository with a go.mod. Those below testdata are left out.
func goMods(t *testing.T) []string {
	t.Helper()
	const root = repository + "/"
	var folders []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		rel = filepath.ToSlash(rel)
		if entry.IsDir() && rel != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
			return fs.SkipDir
		}
		if entry.Name() == "go.mod" {
			folders = append(folders, path.Dir(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

// TestOneSetOfVersions checks that all go.mod files require the same version of a module. If a module
// requires other versions than the workspace chooses, its tests on their own test another program than the
// one that ships, and every package that depends on the difference is compiled twice.
func TestOneSetOfVersions(t *testing.T) {
	required := map[string]map[string][]string{} // folders by module and version
	folders := goMods(t)
	for _, folder := range folders {
		for _, match := range requirement.FindAllStringSubmatch(readText(t, path.Join(folder, "go.mod")), -1) {
			module, version := match[1], match[2]
			if slices.ContainsFunc(ownVersions[folder].prefixes, func(prefix string) bool { return strings.HasPrefix(module, prefix) }) {
				continue
			}
			if required[module] == nil {
				required[module] = map[string][]string{}
			}
			required[module][version] = append(required[module][version], folder)
		}
	}
	if len(folders) < len(daemons)+len(ownVersions) || len(required) < 50 {
		t.Errorf("only %d go.mod files with %d modules were found", len(folders), len(required))
	}
	for _, module := range slices.Sorted(maps.Keys(required)) {
		newest := slices.MaxFunc(slices.Collect(maps.Keys(required[module])), compareVersions)
		for version, folders := range required[module] {
			for _, folder := range folders {
				if version != newest {
					t.Errorf("%s/go.mod requires %s %s, %s/go.mod %s; mend it by\n\tGOWORK=off go -C %s get %s@%s && GOWORK=off go -C %s mod tidy",
						folder, module, version, required[module][newest][0], newest, folder, module, newest, folder)
				}
			}
		}
	}
	for folder := range ownVersions {
		if !slices.Contains(folders, folder) {
			t.Errorf("%s is in ownVersions and has no go.mod", folder)
		}
	}
}

// compareVersions orders versions by their numbers. A version with a suffix, such as a release
// candidate, is older than the same version without one.
func compareVersions(a, b string) int {
	numbersA, suffixA, _ := strings.Cut(strings.TrimSuffix(a, "+incompatible"), "-")
	numbersB, suffixB, _ := strings.Cut(strings.TrimSuffix(b, "+incompatible"), "-")
	partsB := strings.Split(strings.TrimPrefix(numbersB, "v"), ".")
	for i, part := range strings.Split(strings.TrimPrefix(numbersA, "v"), ".") {
		numberA, _ := strconv.Atoi(part)
		numberB, _ := strconv.Atoi(partsB[i])
		if order := cmp.Compare(numberA, numberB); order != 0 {
			return order
		}
	}
	if suffixA == "" || suffixB == "" {
		return cmp.Compare(len(suffixB), len(suffixA))
	}
	return strings.Compare(suffixA, suffixB)
}

func TestCompareVersions(t *testing.T) {
	ordered := []string{
		"v0.0.0-20240101000000-aaaaaaaaaaaa", "v0.0.0-20250101000000-000000000000", "v0.9.0", "v0.10.0-rc.1", "v0.10.0", "v0.10.2", "v28.0.0+incompatible",
	}
	if shuffled := slices.SortedFunc(slices.Values([]string{ordered[3], ordered[6], ordered[1], ordered[5], ordered[4], ordered[0], ordered[2]}), compareVersions); !slices.Equal(shuffled, ordered) {
		t.Errorf("the order of versions is %v", shuffled)
	}
}
