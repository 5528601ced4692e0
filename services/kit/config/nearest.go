package config

import (
	"fmt"
	"strings"
)

// suggest returns "; did you mean x?" when a known name is near enough to be
// what was meant.
func suggest(name string, known []string, prefix string) string {
	best, bestDist := "", len(name)/2+1
	for _, k := range known {
		d := distance(name, k)
		if len(name) > 2 && strings.HasPrefix(k, name) {
			d = 1 // cut short rather than misspelled
		}
		if d < bestDist {
			best, bestDist = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s?", prefix, best)
}

// distance is the Levenshtein distance in bytes: names are ASCII.
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
