package api

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	nodeagentv1 "portolan.dev/proto/portolan/nodeagent/v1"
	registryv1 "portolan.dev/proto/portolan/registry/v1"
	"portolan.dev/registry/view"
	"portolan.dev/services/object"
)

// mostAgents bounds what anybody who can send heartbeats can make the registry keep.
const mostAgents = 100_000

// Agents implements registryv1.AgentServiceServer from the heartbeats it is given.
type Agents struct {
	registryv1.UnsafeAgentServiceServer
	view    *view.View
	timeout time.Duration

	mu    sync.Mutex
	heard map[string]heartbeat
}

type heartbeat struct {
	last *nodeagentv1.Heartbeat
	at   time.Time
}

// NewAgents returns an empty list; an agent counts as alive for timeout after its last heartbeat.
func NewAgents(v *view.View, timeout time.Duration) *Agents {
	return &Agents{view: v, timeout: timeout, heard: map[string]heartbeat{}}
}

// Heard takes a heartbeat; one without a node means nothing. Its own time is not looked at: what counts is when it was heard.
func (s *Agents) Heard(beat *nodeagentv1.Heartbeat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	node := beat.GetNode()
	if _, known := s.heard[node]; node != "" && (known || len(s.heard) < mostAgents) {
		s.heard[node] = heartbeat{beat, time.Now()}
	}
}

// forgetAfter is how many timeouts an agent that fell silent stays in the list, unless its node is still registered.
const forgetAfter = 10

// ListAgents returns the last heartbeat of every agent.
func (s *Agents) ListAgents(context.Context, *registryv1.ListAgentsRequest) (*registryv1.ListAgentsResponse, error) {
	state := s.view.State()
	answer := &registryv1.ListAgentsResponse{HeadRevision: state.Revision()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(s.heard)) {
		beat := s.heard[node]
		age := time.Since(beat.at)
		if age > forgetAfter*s.timeout && !registered(state, node) {
			delete(s.heard, node)
			continue
		}
		answer.Agents = append(answer.Agents, &registryv1.Agent{Heartbeat: beat.last, AgeSeconds: age.Seconds(), Alive: age <= s.timeout})
	}
	return answer, nil
}

func registered(state *view.State, node string) bool {
	return state.Get(object.Key{Kind: "Node", Name: node}) != nil
}
