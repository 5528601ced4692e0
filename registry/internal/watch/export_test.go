package watch

// Poll returns the revisions of the new changes, without waiting.
func (c *Cursor) Poll() ([]uint64, uint64, error) {
	batches, upTo, _, err := c.read()
	var revisions []uint64
	for _, batch := range batches {
		for _, e := range batch.entries {
			revisions = append(revisions, e.change.Revision)
		}
	}
	return revisions, upTo, err
}
