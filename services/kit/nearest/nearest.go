package nearest

import (
	"slices"
	"strings"
)

// Name returns the known name nearest to the given one, "" if none is near. Upper and lower case count as the same.
func Name(name string, known []string) string {
	best, least := "", min(max(2, len(name)/3), len(name)-1)+1
	for _, candidate := range slices.Sorted(slices.Values(known)) {
		d := distance(strings.ToLower(name), strings.ToLower(candidate))
		if len(name) > 2 && strings.HasPrefix(candidate, name) {
			d = min(d, 1) // cut short rather than misspelled
		}
		if d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance counts the bytes to add, drop or change to get from a to b (Levenshtein): names are ASCII.
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
