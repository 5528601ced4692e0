package userspace

// Frontends returns the number of frontends in the plane, including those that only drain.
func (p *Plane) Frontends() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.frontends)
}
