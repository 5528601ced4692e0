package walls

import (
	"cmp"
	"fmt"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// riddleWords are words that stand for a subject which the reader has to guess: "who asks", "what
// was read", "that of the other". A comment that names its subject (the caller, the bytes, the
// port of the other server) needs hardly any of them. They are not forbidden, since one in a
// hundred lines reads well. A module with many of them has comments that only their author
// understands. Such a comment is written anew from the code below it. Replacing the word by another
// one makes it no clearer.
var riddleWords = regexp.MustCompile(`(?i)\b(who|whose|whom|whoever|what|whatever|nobody|somebody|anybody|everybody|that of|those of|the ones?|the rest)\b`)

// mostRiddles is the number of riddle words that a module may have in 1,000 lines of comments. The
// comments of boulder and kine have five to eight.
const mostRiddles = 10

// prose counts lines of comments and riddle words.
type prose struct{ lines, riddles int }

// figure returns the number of riddle words in 1,000 lines of comments.
func (p prose) figure() float64 { return 1000 * float64(p.riddles) / float64(max(1, p.lines)) }

// proseOf counts the comments of a Go file. Directives such as //go:build and //nolint are no prose.
func proseOf(source []byte) prose {
	var found prose
	fset := token.NewFileSet()
	var scan scanner.Scanner
	scan.Init(fset.AddFile("", fset.Base(), len(source)), source, nil, scanner.ScanComments)
	for {
		_, tok, text := scan.Scan()
		switch {
		case tok == token.EOF:
			return found
		case tok != token.COMMENT || strings.HasPrefix(text, "//go:") || strings.HasPrefix(text, "//nolint"):
			continue
		}
		found.lines += 1 + strings.Count(text, "\n")
		found.riddles += len(riddleWords.FindAllString(text, -1))
	}
}

// TestPlainWords checks that no module has more than mostRiddles riddle words in 1,000 lines of the
// comments of its code and tests. All tools count as one module.
func TestPlainWords(t *testing.T) {
	modules, perFile := map[string]prose{}, map[string]map[string]int{}
	for _, f := range files(t) {
		if f.generated {
			continue
		}
		source, err := os.ReadFile(filepath.Join(repository, f.name))
		if err != nil {
			t.Fatal(err)
		}
		module, _, _ := strings.Cut(f.name, "/")
		found, sum := proseOf(source), modules[module]
		modules[module] = prose{sum.lines + found.lines, sum.riddles + found.riddles}
		if perFile[module] == nil {
			perFile[module] = map[string]int{}
		}
		perFile[module][f.name] = found.riddles
	}
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		if figure := modules[module].figure(); figure > mostRiddles {
			t.Errorf("%s has %.1f riddle words in 1,000 lines of comments (%d in %d), at most %d: name the subject instead; most are in\n%s",
				module, figure, modules[module].riddles, modules[module].lines, mostRiddles, mostOften(perFile[module], 5))
		}
	}
}

// mostOften returns the n files with the most riddle words, a line for each.
func mostOften(riddles map[string]int, n int) string {
	names := slices.SortedFunc(maps.Keys(riddles), func(a, b string) int {
		return cmp.Or(cmp.Compare(riddles[b], riddles[a]), strings.Compare(a, b))
	})
	var out strings.Builder
	for _, name := range names[:min(n, len(names))] {
		fmt.Fprintf(&out, "\t%s: %d\n", name, riddles[name])
	}
	return out.String()
}

func TestProseOf(t *testing.T) {
	const source = `//go:build linux

// Package p knows who asks, and
// What of it.
package p

/* The ones
   that wait */
const text = "// who" // somebody's
//nolint:all // whoever
var whose int // somewhat
`
	if got, want := proseOf([]byte(source)), (prose{lines: 6, riddles: 4}); got != want {
		t.Errorf("proseOf counts %+v, want %+v", got, want)
	}
}
