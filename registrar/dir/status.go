package dir

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Status is the state of a folder after the last attempt to apply it.
type Status struct {
	// Path and Selector are from the options.
	Path, Selector string
	// Attempted is the time of the last attempt. Applied is the time of the last attempt without a problem.
	// They are zero if there was no such attempt.
	Attempted, Applied time.Time
	// Revision is a hash of the names and contents of the files of the last attempt. It is empty if the
	// files could not be read. AppliedRevision is the revision of the last attempt without a problem.
	Revision, AppliedRevision string
	// Files is the number of files with manifests, and Objects the number of objects in them.
	Files, Objects int
	// Created, Configured, Unchanged and Pruned are the numbers of objects of the last attempt.
	Created, Configured, Unchanged, Pruned int
	// Problems are the reasons why the last attempt failed. It is empty if the attempt succeeded.
	Problems []Problem
	// Warnings are about values and objects that were ignored, or are warnings of the registry.
	Warnings []Problem
}

// Problem is a mistake in a file, or an object that could not be applied or pruned.
type Problem struct {
	// File is the path of the file, relative to the folder. It is empty if the folder itself cannot be read,
	// and for a stored object that could not be pruned.
	File string
	// Line and Column are the position in the file, from 1. 0: unknown.
	Line, Column int
	// Field is the path of the field in the document, such as "spec.ports[0].port". It may be empty.
	Field string
	// Object is the object as KIND NAMESPACE/NAME. It may be empty.
	Object string
	// Message describes the mistake and the remedy.
	Message string
}

// Error formats the problem as compilers do: "web.yaml:7:5: spec.ports[0].prot: unknown field".
func (p Problem) Error() string {
	var place []string
	for _, part := range []string{p.File, number(p.Line), number(p.Column)} {
		if part != "" {
			place = append(place, part)
		}
	}
	text := p.Message
	for _, part := range []string{p.Field, p.Object, strings.Join(place, ":")} {
		if part != "" {
			text = part + ": " + text
		}
	}
	return text
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// mostProblems limits the problems that an error lists, because a folder can have any number of objects.
const mostProblems = 20

// err returns the problems of the last attempt as one error, or nil.
func (s *Status) err() error {
	var listed []error
	for i, problem := range s.Problems {
		if i == mostProblems {
			listed = append(listed, fmt.Errorf("and %d more", len(s.Problems)-i))
			break
		}
		listed = append(listed, problem)
	}
	if err := errors.Join(listed...); err != nil {
		return fmt.Errorf("folder %s: %w", s.Path, err)
	}
	return nil
}
