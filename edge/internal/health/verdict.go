package health

// verdict is the present judgement of a backend, usable or not. It counts the latest results in a row that
// contradict the judgement.
type verdict struct {
	usable   bool
	contrary int
}

// add counts a result. It reports whether the results have changed the verdict.
func (v *verdict) add(success bool, s *Settings) bool {
	if success == v.usable {
		v.contrary = 0
		return false
	}
	v.contrary++
	needed := s.Healthy
	if v.usable {
		needed = s.Unhealthy
	}
	if v.contrary < needed {
		return false
	}
	*v = verdict{usable: success}
	return true
}
