package packetfilter

// SetLimit sets the size of a set in a filter that is not in the kernel yet.
func (f *Filter) SetLimit(name Set, size uint32) {
	for _, t := range f.tables {
		t.sets[name].Size = size
	}
}

// IsEmpty reports whether tables were not there when they were read.
func IsEmpty(t *Tables) bool { return len(t.structure) == 0 && len(t.elements) == 0 }
