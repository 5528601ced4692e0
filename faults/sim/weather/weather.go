package weather

import (
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// Fate is the weather's decision about one message.
type Fate struct {
	Delay time.Duration
	// Lost messages never arrive.
	Lost bool
	// Twice is true for messages that arrive a second time.
	Twice bool
	// Overtakes is true for messages that do not wait for those that were sent before them.
	Overtakes bool
}

// Episode is bad weather on some links.
type Episode struct {
	// Links are the first letters of the names of the links; empty: all.
	Links string
	// Slowest is the longest delay.
	Slowest time.Duration
	// Lost, Twice and Overtakes are percentages of the messages.
	Lost, Twice, Overtakes int
	// Holds is true if messages arrive only after the episode.
	Holds bool
}

// Weather is safe for concurrent use.
type Weather struct {
	seed uint64

	mu       sync.Mutex
	links    map[string]*link
	episodes []running
	quiet    bool
}

// link is a way from one daemon to another.
type link struct {
	random *rand.Rand
	latest time.Duration // the longest delay so far
}

// fairDelay bounds the delay of a message in fair weather.
const fairDelay = 2 * time.Millisecond

// New returns fair weather.
func New(seed uint64) *Weather { return &Weather{seed: seed, links: map[string]*link{}} }

// running is an episode that has begun.
type running struct {
	Episode
	end time.Time
}

// Add begins an episode.
func (w *Weather) Add(e Episode, lasts time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.episodes = append(w.episodes, running{e, time.Now().Add(lasts)})
}

// Clear ends all bad weather for good.
func (w *Weather) Clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quiet = true
}

// Next decides about the next message of a link. Each message takes the same number of random
// values, so that an episode that is left out changes nothing but the messages that it concerned.
func (w *Weather) Next(name string) Fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.link(name)
	share, die := l.random.Float64(), l.random.IntN(100)
	fate := Fate{Delay: 1 + time.Duration(share*share*float64(fairDelay))}
	now := time.Now()
	for _, e := range w.episodes {
		if w.quiet || !now.Before(e.end) || !strings.HasPrefix(name, e.Links) {
			continue
		}
		fate.Delay += time.Duration(share * float64(e.Slowest))
		if e.Holds {
			fate.Delay += e.end.Sub(now)
		}
		fate.Lost = fate.Lost || die < e.Lost
		fate.Twice = fate.Twice || die >= 100-e.Twice
		fate.Overtakes = fate.Overtakes || die%10 < e.Overtakes/10
	}
	l.latest = max(l.latest, fate.Delay)
	return fate
}

// Latest returns the longest delay that a message of a link has had.
func (w *Weather) Latest(name string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.link(name).latest
}

// link returns the link of a name. The caller holds mu.
func (w *Weather) link(name string) *link {
	l := w.links[name]
	if l == nil {
		hash := fnv.New64a()
		hash.Write([]byte(name))
		l = &link{random: rand.New(rand.NewPCG(w.seed, hash.Sum64()))}
		w.links[name] = l
	}
	return l
}
