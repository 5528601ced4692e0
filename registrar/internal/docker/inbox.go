package docker

import (
	"strings"
	"sync"
	"time"

	"portolan.dev/services/kit/wake"
)

// maxPending is the number of containers with unread news above which all are listed again.
const maxPending = 4096

// signals are the times of the last signals that containers got, by ID and signal.
type signals map[string]map[int]time.Time

// note records a signal.
func (s signals) note(id string, signal int, at time.Time) {
	if s[id] == nil {
		s[id] = map[int]time.Time{}
	}
	if at.After(s[id][signal]) {
		s[id][signal] = at
	}
}

// news are what events have said since the news were last taken.
type news struct {
	changed map[string]bool // the containers to ask about
	signals signals
	all     bool // there were too many to remember: all containers may have changed
}

func noNews() news { return news{changed: map[string]bool{}, signals: signals{}} }

// inbox collects news, so that the reader of events never waits for the engine's answers: the engine drops
// events whose reader is slow.
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
	case !strings.HasPrefix(e.Action, "exec_"): // engines that do not know the filter send them
		i.pending.changed[id] = true
	}
	i.arrived.Send()
}

// take returns the news and forgets them.
func (i *inbox) take() news {
	i.mu.Lock()
	defer i.mu.Unlock()
	taken := i.pending
	i.pending = noNews()
	return taken
}

// takeSignals returns the signals among the news and forgets them.
func (i *inbox) takeSignals() signals {
	i.mu.Lock()
	defer i.mu.Unlock()
	taken := i.pending.signals
	i.pending.signals = signals{}
	return taken
}
