package kubeapi

import (
	"regexp"
	"strings"
	"testing"
)

// difference is a field with another value than in the answer of Kubernetes. The value absent means that an
// answer lacks the field.
type difference struct{ path, want, have string }

const absent = "absent"

// differences returns the fields in which an answer differs from the wanted one.
func differences(want, have answerFields, known *values) (found []difference) {
	for _, path := range want.paths() {
		if h, ok := have[path]; !ok {
			found = append(found, difference{path, want[path], absent})
		} else if !known.match(want[path], h) {
			found = append(found, difference{path, want[path], h})
		}
	}
	for _, path := range have.paths() {
		if _, ok := want[path]; !ok {
			found = append(found, difference{path, absent, have[path]})
		}
	}
	return found
}

// wanted is an entry of the table of differences that Portolan has on purpose.
type wanted struct {
	cases string // topic/name of the requests; a star stands for any text
	path  string // of the field, likewise
	have  string // the value at Portolan, likewise
	why   string

	used bool
}

// listed reports whether the table has a difference.
func listed(name string, d difference) bool {
	found := false
	for i := range wantedDifferences {
		w := &wantedDifferences[i]
		if like(w.cases, name) && like(w.path, d.path) && like(w.have, d.have) {
			w.used, found = true, true
		}
	}
	return found
}

// reportUnused fails the test for the entries of the table that are no differences.
func reportUnused(t *testing.T) {
	for _, w := range wantedDifferences {
		if !w.used {
			t.Errorf("no request has the difference %s of %s any more (%s): remove it from the table", w.path, w.cases, w.why)
		}
	}
}

// like reports whether a text is as a pattern, in which a star stands for any text.
func like(pattern, text string) bool {
	form := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `(?s:.*)`)
	return regexp.MustCompile("^(?:" + form + ")$").MatchString(text)
}
