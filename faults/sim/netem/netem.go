package netem

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
type Impairment struct {
	// Links are the first letters of the names of the links; empty: all.
	LinkPrefix string
	// Slowest is the longest delay.
	MaxDelay time.Duration
	// Lost, Twice and Overtakes are percentages of the messages.
	LostPercent, DuplicatePercent, ReorderPercent int
	// Holds is true if messages arrive only after the episode.
	Stall bool
}

// Weather is safe for concurrent use.
type Emulator struct {
	seed uint64

	mu          sync.Mutex
	links       map[string]*link
	impairments []activeImpairment
	cleared     bool
}

// link is a way from one daemon to another.
type link struct {
	random   *rand.Rand
	maxDelay time.Duration // the longest delay so far
}

// fairDelay bounds the delay of a message in fair weather.
const maxNormalDelay = 2 * time.Millisecond

// New returns fair weather.
func New(seed uint64) *Emulator { return &Emulator{seed: seed, links: map[string]*link{}} }

// running is an episode that has begun.
type activeImpairment struct {
	Impairment
	end time.Time
}

// Add begins an episode.
func (e *Emulator) Add(imp Impairment, duration time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.impairments = append(e.impairments, activeImpairment{imp, time.Now().Add(duration)})
}

// Clear ends all bad weather for good.
func (e *Emulator) Clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cleared = true
}

// Next decides about the next message of a link. Each message takes the same number of random
// values, so that an episode that is left out changes nothing but the messages that it concerned.
func (e *Emulator) Next(name string) Fate {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.link(name)
	fraction, roll := l.random.Float64(), l.random.IntN(100)
	fate := Fate{Delay: 1 + time.Duration(fraction*fraction*float64(maxNormalDelay))}
	now := time.Now()
	for _, imp := range e.impairments {
		if e.cleared || !now.Before(imp.end) || !strings.HasPrefix(name, imp.LinkPrefix) {
			continue
		}
		fate.Delay += time.Duration(fraction * float64(imp.MaxDelay))
		if imp.Stall {
			fate.Delay += imp.end.Sub(now)
		}
		fate.Lost = fate.Lost || roll < imp.LostPercent
		fate.Twice = fate.Twice || roll >= 100-imp.DuplicatePercent
		fate.Overtakes = fate.Overtakes || roll%10 < imp.ReorderPercent/10
	}
	l.maxDelay = max(l.maxDelay, fate.Delay)
	return fate
}

// Latest returns the longest delay that a message of a link has had.
func (e *Emulator) MaxDelay(name string) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.link(name).maxDelay
}

// link returns the link of a name. The caller holds mu.
func (e *Emulator) link(name string) *link {
	l := e.links[name]
	if l == nil {
		hash := fnv.New64a()
		hash.Write([]byte(name))
		l = &link{random: rand.New(rand.NewPCG(e.seed, hash.Sum64()))}
		e.links[name] = l
	}
	return l
}
