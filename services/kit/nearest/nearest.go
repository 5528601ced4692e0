package nearest

import (
	"slices"
	"strings"
)

// Name returns the known name that is most similar to the given one, or "" if none is similar. It
// ignores case.
func Name(name string, known []string) string {
	best, least := "", min(max(2, len(name)/3), len(name)-1)+1
	for _, candidate := range slices.Sorted(slices.Values(known)) {
		d := distance(strings.ToLower(name), strings.ToLower(candidate))
		if len(name) > 2 && strings.HasPrefix(candidate, name) {
			d = min(d, 1) // an abbreviation, not a misspelling
		}
		if d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance returns the Levenshtein distance of a and b: the number of bytes to add, remove or
// change. Names are ASCII.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
