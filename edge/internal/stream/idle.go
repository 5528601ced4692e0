package stream

import "time"

// schedule starts the timer of the next sweep if there are connections and an idle timeout. The caller holds the
// server's lock.
func (s *Server) schedule() {
	idle := s.settings.Load().IdleTimeout
	if s.sweeper == nil && idle > 0 && len(s.open) > 0 {
		s.sweeper = time.AfterFunc(idle/8, s.sweep)
	}
}

// Set changes the settings. The idle timeout also applies to established connections, the others only to new ones.
func (s *Server) Set(settings *Settings) {
	s.settings.Store(settings)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sweeper != nil && s.sweeper.Stop() {
		s.sweeper = nil
	}
	s.schedule()
}

// sweep ends the connections that are idle.
func (s *Server) sweep() {
	now, idle := time.Now(), s.settings.Load().IdleTimeout
	for _, c := range s.connections() {
		if idle > 0 && c.idleFor(now) >= idle {
			c.timedOut.Store(true)
			c.session.Abort()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweeper = nil
	s.schedule()
}

func (s *Server) connections() []*connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*connection, 0, len(s.open))
	for c := range s.open {
		out = append(out, c)
	}
	return out
}

// idleFor returns the time without progress. It is 0 until the backend is connected, because dials have timeouts of
// their own.
func (c *connection) idleFor(now time.Time) time.Duration {
	if !c.copying.Load() {
		return 0
	}
	if p := c.session.Progress(); p != c.progress || c.since.IsZero() {
		c.progress, c.since = p, now
	}
	return now.Sub(c.since)
}
