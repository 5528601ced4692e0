package kernel

import (
	"errors"
	"strconv"
)

// progressSuffix is the suffix of the progress file, which has the revision in force and the
// draining backends. Its name is the journal's name with the suffix. The progress file is separate
// because earlier releases refuse a journal with unknown keys, and a node must be able to return to
// the previous release. That release does not write the progress file, so its content may be
// outdated. An outdated revision is too low and delays no plan. Drain times that are over are not
// recalled.
const progressSuffix = ".progress"

// openJournals opens the journal and the progress file.
func (p *Plane) openJournals() (err error) {
	if p.journal, err = OpenJournal(p.opts.Journal); err != nil {
		return err
	}
	path := p.opts.Journal
	if path != "" {
		path += progressSuffix
	}
	if p.progress, err = OpenJournal(path); err != nil {
		return err
	}
	return p.progress.SetComplete() // nothing makes up for lost progress
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
