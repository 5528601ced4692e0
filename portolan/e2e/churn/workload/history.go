package workload

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"portolan.dev/services/object"
)

// kept is the number of writes that are kept per namespace.
const kept = 60

// History holds the last writes of each namespace.
type History struct {
	began time.Time

	mu      sync.Mutex
	entries map[string][]string
}

// NewHistory returns a history without writes.
func NewHistory() *History { return &History{began: time.Now(), entries: map[string][]string{}} }

// Note records a write and its outcome.
func (h *History) Note(s Step, stored object.Object, err error) {
	var outcome string
	if err != nil {
		outcome = err.Error()
	} else {
		outcome = fmt.Sprintf("revision %d, uid %s", stored.GetMetadata().GetResourceVersion(), stored.GetMetadata().GetUid())
	}
	what := ""
	if s.Verb != Delete {
		what = " " + digest(s.Object)
	}
	line := fmt.Sprintf("%7.3fs %s %s%s: %s", time.Since(h.began).Seconds(), s.Verb, object.KeyOf(s.Object), what, outcome)
	h.mu.Lock()
	defer h.mu.Unlock()
	namespace := object.KeyOf(s.Object).Namespace
	h.entries[namespace] = append(h.entries[namespace], line)
	if n := len(h.entries[namespace]); n > 2*kept {
		h.entries[namespace] = h.entries[namespace][n-kept:]
	}
}

// digest returns an object on one line, without its name and namespace.
func digest(o object.Object) string {
	body := object.Clone(o)
	meta := object.MetaOf(body)
	meta.Name, meta.Namespace = "", ""
	return strings.Join(strings.Fields(fmt.Sprint(body)), " ")
}

// Of returns the last writes of a namespace, oldest first.
func (h *History) Of(namespace string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.entries[namespace]
	return append([]string(nil), all[max(0, len(all)-kept):]...)
}
