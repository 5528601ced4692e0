package userspace

// Frontends is how many frontends the plane knows, those that only drain included.
func (p *Plane) Frontends() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.frontends)
}
