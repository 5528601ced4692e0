package lab

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"portolan.dev/portolan/e2e/labtest"
)

// get returns the body of an HTTP response of a machine, which is asked in its own namespace. It
// returns an error unless the status is 200.
func (m *Machine) get(at, path string) (string, error) {
	client := labtest.HTTPIn(m.Namespace)
	client.Timeout = 2 * time.Second
	answer, err := client.Get("http://" + at + path)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s of %s: %s", path, m.Name, answer.Status)
	}
	return string(text), err
}

// Metric returns the sum over the series of the daemon's metric that have the given labels. A label
// is written as in the exposition format, such as reason="pruned". Metric returns an error if no
// series matches.
func (m *Machine) Metric(name string, labels ...string) (float64, error) {
	text, err := m.get(healthAt(programOf(m.Name)), "/metrics")
	if err != nil {
		return 0, err
	}
	sum, found := 0.0, false
	for line := range strings.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if bare, _, _ := strings.Cut(series, "{"); bare != name || !containsAll(series, labels) {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("%s of %s: %w", series, m.Name, err)
		}
		sum, found = sum+number, true
	}
	if !found {
		return 0, fmt.Errorf("%s has no metric %s with labels %s", m.Name, name, labels)
	}
	return sum, nil
}

func containsAll(text string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}
