package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// flakeList holds the tests that may fail once: the reason by "PACKAGE TEST", where TEST has no subtest.
type flakeList map[string]string

var flakeEntry = regexp.MustCompile(`^(\S+ (?:Test|Example|Fuzz)\w*): (\S.*)$`)

// readFlakes reads a list with an entry "PACKAGE TEST: REASON" per line. Empty lines and lines with # at the start do not count.
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

// flake is a failure that a second run of the package did not repeat.
type flake struct {
	test   string // PACKAGE TEST, or the package alone if it failed outside of its tests
	reason string // of the list; "" if the list lacks the test
}

func (f flake) String() string {
	why := "mend it"
	if f.reason != "" {
		why = "listed: " + f.reason
	}
	return fmt.Sprintf("FLAKY\t%s: failed once, passed when run alone — %s", f.test, why)
}

// flakesOf returns the failures of a package that passed in its second run, each top-level test once.
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

// outdated returns the entries whose test no package has.
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
