package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// flakeList maps "PACKAGE TEST" to the reason why the test may fail once. TEST is a top-level test.
type flakeList map[string]string

var flakeEntry = regexp.MustCompile(`^(\S+ (?:Test|Example|Fuzz)\w*): (\S.*)$`)

// readFlakes reads a list with an entry "PACKAGE TEST: REASON" per line. It ignores empty lines and
// lines that begin with #.
func readFlakes(file string) (flakeList, error) {
	if file == "" {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	list := flakeList{}
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		entry := flakeEntry.FindStringSubmatch(line)
		if entry == nil {
			return nil, fmt.Errorf("%s:%d: %q is not PACKAGE TEST: REASON", file, number, line)
		}
		list[entry[1]] = entry[2]
	}
	return list, nil
}

// flake is a failure that did not recur in a second run of the package.
type flake struct {
	test   string // PACKAGE TEST, or the package alone if it failed outside its tests
	reason string // from the list; "" if the list lacks the test
}

func (f flake) String() string {
	why := "mend it"
	if f.reason != "" {
		why = "listed: " + f.reason
	}
	return fmt.Sprintf("FLAKY\t%s: failed once, passed when run alone — %s", f.test, why)
}

// flakesOf returns a flake for each top-level test that failed in the first run of a package that
// passed in its second run.
func (l flakeList) flakesOf(first *pkg) []flake {
	var flakes []flake
	for _, name := range first.failures() {
		path, test, inTest := strings.Cut(name, " ")
		if inTest {
			test, _, _ = strings.Cut(test, "/")
			name = path + " " + test
		}
		f := flake{name, l[name]}
		if !slices.Contains(flakes, f) {
			flakes = append(flakes, f)
		}
	}
	return flakes
}

// outdated returns the entries of tests that no package has.
func (l flakeList) outdated(seen map[string]bool) []string {
	var names []string
	for name := range l {
		if !seen[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
