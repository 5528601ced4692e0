package docker

import (
	"strings"
	"sync"
	"time"

	"portolan.dev/services/kit/wake"
)

// maxPending is the limit of containers in the inbox. Above it, the inbox only remembers that all containers
// may have changed.
const maxPending = 4096

// signals are the times at which containers were last sent a signal, by the ID of the container and the
// number of the signal.
type signals map[string]map[int]time.Time

// note records a signal to a container.
func (s signals) note(id string, signal int, at time.Time) {
	if s[id] == nil {
		s[id] = map[int]time.Time{}
	}
	if at.After(s[id][signal]) {
		s[id][signal] = at
	}
}

// news are the contents of the inbox.
type news struct {
	changed map[string]bool // the containers to inspect
	signals signals
	all     bool // more than maxPending: list all containers
}

func noNews() news { return news{changed: map[string]bool{}, signals: signals{}} }

// inbox collects events until the watcher takes them. It lets the reader of the event stream go on while the
// watcher waits for an answer, because the engine drops the events of a slow reader.
type inbox struct {
	arrived wake.Signal

	mu      sync.Mutex
	pending news // guarded by mu
}

func newInbox() *inbox { return &inbox{arrived: wake.New(), pending: noNews()} }

// put adds an event.
func (i *inbox) put(e *event) {
	id := e.container()
	if id == "" {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	signal := 0
	if e.Action == "kill" {
		signal = signalNumber(e.Actor.Attributes["signal"])
	}
	switch {
	case len(i.pending.changed)+len(i.pending.signals) >= maxPending:
		i.pending = noNews()
		i.pending.all = true
	case signal != 0:
		i.pending.signals.note(id, signal, time.Unix(0, e.TimeNano))
	case !strings.HasPrefix(e.Action, "exec_"): // engines that do not know the filter by action send these, too
		i.pending.changed[id] = true
	}
	i.arrived.Send()
}

// take empties the inbox and returns its news.
func (i *inbox) take() news {
	i.mu.Lock()
	defer i.mu.Unlock()
	taken := i.pending
	i.pending = noNews()
	return taken
}

// takeSignals removes the signals from the inbox and returns them.
func (i *inbox) takeSignals() signals {
	i.mu.Lock()
	defer i.mu.Unlock()
	taken := i.pending.signals
	i.pending.signals = signals{}
	return taken
}
