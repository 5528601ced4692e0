package netem

import (
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// Fate is the decision about one message.
type Fate struct {
	// Delay is the time until the message arrives.
	Delay time.Duration
	// Lost is true if the message never arrives.
	Lost bool
	// Twice is true if the message arrives a second time.
	Twice bool
	// Overtakes is true if the message may arrive before messages that were sent earlier.
	Overtakes bool
}

// Impairment is a temporary fault of some links.
type Impairment struct {
	// LinkPrefix selects the links by the prefix of their names. The empty prefix selects all.
	LinkPrefix string
	// MaxDelay is the longest additional delay of a message.
	MaxDelay time.Duration
	// LostPercent, DuplicatePercent and ReorderPercent are shares of the messages.
	LostPercent, DuplicatePercent, ReorderPercent int
	// Stall delays each message until the impairment has ended.
	Stall bool
}

// Emulator decides the fate of each message. It is safe for concurrent use.
type Emulator struct {
	seed uint64

	mu          sync.Mutex
	links       map[string]*link
	impairments []activeImpairment
	cleared     bool
}

// link is a connection between two daemons, or between a daemon and its store.
type link struct {
	random   *rand.Rand
	maxDelay time.Duration // the longest delay so far
}

// maxNormalDelay bounds the delay of a message on a link without impairment.
const maxNormalDelay = 2 * time.Millisecond

// New returns an emulator without impairments.
func New(seed uint64) *Emulator { return &Emulator{seed: seed, links: map[string]*link{}} }

// activeImpairment is an impairment with the time at which it ends.
type activeImpairment struct {
	Impairment
	end time.Time
}

// Add starts an impairment.
func (e *Emulator) Add(imp Impairment, duration time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.impairments = append(e.impairments, activeImpairment{imp, time.Now().Add(duration)})
}

// Clear ends all impairments. Impairments that are added later have no effect.
func (e *Emulator) Clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cleared = true
}

// Next returns the fate of the next message on a link. Each message consumes the same number of
// random values, so that leaving out an impairment changes only the messages during it.
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

// MaxDelay returns the longest delay of a message on a link so far.
func (e *Emulator) MaxDelay(name string) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.link(name).maxDelay
}

// link returns the link with the given name. The caller holds mu.
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
