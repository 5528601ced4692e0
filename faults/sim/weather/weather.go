package weather

import (
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// Fate is what happens to one message.
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
}

// Weather is safe for concurrent use.
type Weather struct {
	seed uint64

	mu       sync.Mutex
	links    map[string]*rand.Rand
	episodes []running
	quiet    bool
}

// fairDelay bounds the delay of a message in fair weather.
const fairDelay = 2 * time.Millisecond

// New returns fair weather.
func New(seed uint64) *Weather { return &Weather{seed: seed, links: map[string]*rand.Rand{}} }

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

// Next decides about the next message of a link. Each message takes the same number of random values, so that
// an episode that is left out changes nothing but the messages that it concerned.
func (w *Weather) Next(link string) Fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	random := w.links[link]
	if random == nil {
		name := fnv.New64a()
		name.Write([]byte(link))
		random = rand.New(rand.NewPCG(w.seed, name.Sum64()))
		w.links[link] = random
	}
	share, die := random.Float64(), random.IntN(100)
	fate := Fate{Delay: 1 + time.Duration(share*share*float64(fairDelay))}
	now := time.Now()
	for _, e := range w.episodes {
		if w.quiet || !now.Before(e.end) || !strings.HasPrefix(link, e.Links) {
			continue
		}
		fate.Delay += time.Duration(share * float64(e.Slowest))
		fate.Lost = fate.Lost || die < e.Lost
		fate.Twice = fate.Twice || die >= 100-e.Twice
		fate.Overtakes = fate.Overtakes || die%10 < e.Overtakes/10
	}
	return fate
}
