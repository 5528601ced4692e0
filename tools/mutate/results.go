package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Outcomes of a mutant.
const (
	killed   = "killed"
	timeout  = "timeout" // the tests did not end; counts as killed
	survived = "survived"
	invalid  = "invalid" // it does not compile
)

// result is the outcome of a mutant, and a line of the file of results.
type result struct {
	mutant
	Outcome string
	Seconds float64
}

// results is the file of all results, with its contents.
type results struct {
	file *os.File
	done map[mutant]result
}

// identity returns the fields of a mutant that are equal in all runs.
func (m mutant) identity() mutant {
	m.path, m.start, m.end = "", 0, 0
	return m
}

// openResults reads the file and opens it for appending. The last line may be incomplete if the
// previous run was killed.
func openResults(name string) (*results, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	r := &results{done: map[mutant]result{}}
	old, err := os.Open(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		lines := bufio.NewScanner(old)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var one result
			if json.Unmarshal(lines.Bytes(), &one) == nil {
				r.done[one.identity()] = one
			}
		}
		if err := errors.Join(lines.Err(), old.Close()); err != nil {
			return nil, err
		}
	}
	r.file, err = os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return r, err
}

func (r *results) add(one result) error {
	r.done[one.identity()] = one
	line, err := json.Marshal(one)
	if err != nil {
		return err
	}
	_, err = r.file.Write(append([]byte("\n"), line...))
	return err
}

// tally is the total of a package.
type tally struct {
	killed    int
	survivors []mutant
}

func (t *tally) add(one result) {
	switch one.Outcome {
	case killed, timeout:
		t.killed++
	case survived:
		t.survivors = append(t.survivors, one.mutant)
	}
}

func (t *tally) tried() int { return t.killed + len(t.survivors) }

// printTable prints the table for docs/testing.md and a list of the survivors.
func printTable(out io.Writer, order []string, tallies map[string]*tally) {
	fmt.Fprint(out, "\n| package | mutants | killed | survived | killed, % |\n|---|---|---|---|---|\n")
	var all tally
	for _, pkg := range order {
		t := tallies[pkg]
		printRow(out, "`"+pkg+"`", t)
		all.killed += t.killed
		all.survivors = append(all.survivors, t.survivors...)
	}
	printRow(out, "all", &all)
	fmt.Fprintln(out)
	for _, m := range all.survivors {
		fmt.Fprintln(out, "*", m)
	}
}

func printRow(out io.Writer, name string, t *tally) {
	share := "–"
	if t.tried() > 0 {
		share = fmt.Sprint(100 * t.killed / t.tried())
	}
	fmt.Fprintf(out, "| %s | %d | %d | %d | %s |\n", name, t.tried(), t.killed, len(t.survivors), share)
}
