package account

import (
	"fmt"
	"strings"

	"github.com/google/pprof/profile"
)

// Kind is a kind of work.
type Kind struct {
	Name string
	// Functions are prefixes of the names of its functions, with their packages.
	Functions []string
}

// Rest is the name of the kind of samples that no kind matches.
const Rest = "other"

// Shares maps names of kinds to their shares of a CPU profile. They sum up to 1.
type Shares map[string]float64

// Divide returns the shares of the kinds in a CPU profile as the package pprof writes it. Earlier kinds
// take precedence. It returns an error if the profile has no samples.
func Divide(data []byte, kinds []Kind) (Shares, error) {
	p, err := profile.ParseData(data)
	if err != nil {
		return nil, fmt.Errorf("read the profile: %w", err)
	}
	shares, total := Shares{}, 0.0
	for _, sample := range p.Sample {
		spent := float64(sample.Value[len(sample.Value)-1]) // the last value is the time
		shares[kindOf(sample, kinds)] += spent
		total += spent
	}
	if total == 0 {
		return nil, fmt.Errorf("the profile of %d ns has no samples", p.DurationNanos)
	}
	for name := range shares {
		shares[name] /= total
	}
	return shares, nil
}

func kindOf(sample *profile.Sample, kinds []Kind) string {
	for _, kind := range kinds {
		if matches(sample, kind) {
			return kind.Name
		}
	}
	return Rest
}

func matches(sample *profile.Sample, kind Kind) bool {
	for _, location := range sample.Location {
		for _, line := range location.Line {
			for _, prefix := range kind.Functions {
				if strings.HasPrefix(line.Function.Name, prefix) {
					return true
				}
			}
		}
	}
	return false
}
