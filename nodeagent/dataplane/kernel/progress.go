package kernel

import (
	"errors"
	"strconv"
)

// progressSuffix is appended to the name of the journal for the file of what is under way: the
// revision that was reached, and the backends that drain. They have a file of their own because
// earlier releases refuse a journal with keys that they do not know, and a node must be able to go
// back to the release before. Such a release leaves the file as it is, so its content may be old: a
// revision that is too low holds nothing back, and drain times that are over are not recalled.
const progressSuffix = ".progress"

// openJournals opens the journal and the file of what is under way.
func (p *Plane) openJournals() (err error) {
	if p.journal, err = OpenJournal(p.opts.Journal); err != nil {
		return err
	}
	path := p.opts.Journal
	if path != "" {
		path += progressSuffix
	}
	p.progress, err = OpenJournal(path)
	return err
}

// flushJournals writes the pending entries of both files.
func (p *Plane) flushJournals() error { return errors.Join(p.journal.Flush(), p.progress.Flush()) }

// removeJournals deletes both files, once the plane has no state left.
func (p *Plane) removeJournals() error { return errors.Join(p.journal.Remove(), p.progress.Remove()) }

// revisionKey is the key of the revision that was reached.
const revisionKey = "revision"

// Reach implements dataplane.Plane. The revision is in the file before the kernel is changed.
func (p *Plane) Reach(revision uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.progress.Put(revisionKey, strconv.FormatUint(revision, 10))
	}
}

// Reached implements dataplane.Plane.
func (p *Plane) Reached() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	value, _ := p.progress.Get(revisionKey)
	revision, _ := strconv.ParseUint(value, 10, 64) // 0: there is none
	return revision
}
