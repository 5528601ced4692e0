package dump

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	table "portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/store"
)

// Content is the content of a file.
type Content struct {
	Pools       []store.Pool
	Allocations []store.Allocation
}

// Snapshot returns the content in the form in which a store returns and restores it.
func (c *Content) Snapshot() store.Snapshot {
	return store.Snapshot{Pools: c.Pools, Allocations: func(yield func(store.Allocation, error) bool) {
		for _, h := range c.Allocations {
			if !yield(h, nil) {
				return
			}
		}
	}}
}

// Counts returns the numbers of the content.
func (c *Content) Counts() Counts {
	return Counts{Pools: len(c.Pools), Allocations: len(c.Allocations)}
}

// Read reads a file completely and verifies it. The error names the line with the fault.
func Read(in io.Reader) (*Content, error) {
	r := reader{content: &Content{}, sum: sha256.New()}
	lines := bufio.NewReader(in)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0 && r.ended:
			return r.content, r.content.verify()
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("line %d: the file is truncated", number)
		case err != nil:
			return nil, err
		}
		if err := r.readLine(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
}

type reader struct {
	content *Content
	sum     hash.Hash
	begun   bool
	ended   bool
}

func (r *reader) readLine(line []byte) error {
	var rec record
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&rec); err != nil {
		return fmt.Errorf("no line of an export: %w", err)
	}
	switch {
	case r.ended || r.begun == (rec.Header != nil):
		return errors.New("a line in the wrong place")
	case rec.End != nil:
		r.ended = true
		return r.check(*rec.End)
	}
	r.sum.Write(line)
	switch {
	case rec.Header != nil:
		r.begun = true
		if rec.Header.Format != format {
			return fmt.Errorf("format %d is not known here, only %d", rec.Header.Format, format)
		}
	case rec.Pool != nil:
		p, err := rec.Pool.pool()
		r.content.Pools = append(r.content.Pools, p)
		return err
	case rec.Allocation != nil:
		h, err := rec.Allocation.allocation()
		r.content.Allocations = append(r.content.Allocations, h)
		return err
	default:
		return errors.New("an empty line")
	}
	return nil
}

func (r *reader) check(e end) error {
	if n := r.content.Counts(); n != (Counts{e.Pools, e.Allocations}) || e.SHA256 != hex.EncodeToString(r.sum.Sum(nil)) {
		return fmt.Errorf("the lines are not those that were written: %d pools and %d allocations, the end says %d and %d", n.Pools, n.Allocations, e.Pools, e.Allocations)
	}
	return nil
}

// verify checks the content by the allocator's rules, in a table of its own.
func (c *Content) verify() error {
	t, err := table.New(nil, time.Minute)
	if err != nil {
		return err
	}
	for _, p := range c.Pools {
		if _, err := t.CheckCreate(p); err != nil {
			return fmt.Errorf("pool %s: %w", p.Name, err)
		}
		if err := t.PutPool(p, time.Time{}); err != nil {
			return fmt.Errorf("pool %s: %w", p.Name, err)
		}
	}
	for _, h := range c.Allocations {
		if err := t.Restore(h); err != nil {
			return err
		}
	}
	return nil
}
