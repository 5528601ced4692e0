package health

import (
	"container/heap"
	"context"
	"net/netip"
	"time"

	"portolan.dev/services/probe"
)

// key identifies a check that groups share.
type key struct {
	target   netip.AddrPort
	settings Settings
}

// check is a check that one or several groups use. The checker's lock guards its fields.
type check struct {
	key
	attempt probe.Check
	users   map[user]bool
	verdict verdict
	reason  string
	since   time.Time
	due     time.Time
	place   int                // in the heap, or -1 while an attempt runs
	cancel  context.CancelFunc // of the running attempt, or nil
}

// user is a backend of a group. Several backends of a group share a check if Settings.Port is set.
type user struct {
	group   *Group
	backend netip.AddrPort
}

// schedule is a heap of checks, ordered by the time at which they are due.
type schedule []*check

// Len implements heap.Interface.
func (s schedule) Len() int { return len(s) }

// Less implements heap.Interface.
func (s schedule) Less(i, j int) bool { return s[i].due.Before(s[j].due) }

// Swap implements heap.Interface.
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].place, s[j].place = i, j
}

// Push implements heap.Interface.
func (s *schedule) Push(x any) {
	c, _ := x.(*check)
	c.place = len(*s)
	*s = append(*s, c)
}

// Pop implements heap.Interface.
func (s *schedule) Pop() any {
	last := len(*s) - 1
	c := (*s)[last]
	(*s)[last] = nil
	*s, c.place = (*s)[:last], -1
	return c
}

var _ heap.Interface = (*schedule)(nil)
