package api

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/internal/view"
	"portolan.dev/services/object"
)

// mostAgents limits the memory that the senders of heartbeats can make the registry use.
const mostAgents = 100_000

// Agents implements registryv1.AgentServiceServer from the heartbeats that it receives.
type Agents struct {
	registryv1.UnsafeAgentServiceServer
	view    *view.View
	timeout time.Duration

	mu         sync.Mutex
	heartbeats map[string]heartbeat
}

type heartbeat struct {
	last *nodeagentv1.Heartbeat
	at   time.Time
}

// NewAgents returns an empty list. An agent counts as alive for timeout after its last heartbeat.
func NewAgents(v *view.View, timeout time.Duration) *Agents {
	return &Agents{view: v, timeout: timeout, heartbeats: map[string]heartbeat{}}
}

// Record records a heartbeat and the time of its arrival. It ignores the time in the heartbeat, and
// a heartbeat without a node.
func (s *Agents) Record(beat *nodeagentv1.Heartbeat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	node := beat.GetNode()
	if _, known := s.heartbeats[node]; node != "" && (known || len(s.heartbeats) < mostAgents) {
		s.heartbeats[node] = heartbeat{beat, time.Now()}
	}
}

// forgetAfter is the number of timeouts after which a silent agent is removed from the list, unless
// its node is still registered.
const forgetAfter = 10

// ListAgents returns the last heartbeat of every agent.
func (s *Agents) ListAgents(context.Context, *registryv1.ListAgentsRequest) (*registryv1.ListAgentsResponse, error) {
	state := s.view.State()
	answer := &registryv1.ListAgentsResponse{HeadRevision: state.Revision()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(s.heartbeats)) {
		beat := s.heartbeats[node]
		age := time.Since(beat.at)
		if age > forgetAfter*s.timeout && !registered(state, node) {
			delete(s.heartbeats, node)
			continue
		}
		answer.Agents = append(answer.Agents, &registryv1.Agent{Heartbeat: beat.last, AgeSeconds: age.Seconds(), Alive: age <= s.timeout})
	}
	return answer, nil
}

func registered(state *view.State, node string) bool {
	return state.Get(object.Key{Kind: "Node", Name: node}) != nil
}
