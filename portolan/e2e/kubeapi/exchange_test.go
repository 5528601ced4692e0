package kubeapi

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// An exchange is a request and the answer of Kubernetes. A file of them reads like this:
//
//	Kubernetes v1.37.2
//
//	# A comment belongs to the exchange below it.
//	=== a name
//	POST /api/v1/namespaces/x/services
//	Content-Type: application/json
//	@save uid metadata.uid
//
//	{"metadata":{"name":"web"}}
//	---
//	HTTP code: 201
//	metadata.name: "web"
//
// The recorder replaces the first line and everything between "---" and the next exchange. Lines that
// begin with "@" tell the test how to send the request and which parts of the answer to keep:
//
//	@save NAME PATH          {{NAME}} in later requests of the file is the field of this answer
//	@keep PATH FIELD VALUE…  of the lists at the path, keep the items with one of the values in the field
//	@owners                  compare the owners of the fields too
//	@sort PATH FIELD…        the list at the path has no order: compare it sorted by the fields
//	@events N                a watch: read N events and close
//	@protobuf VERSION KIND   the body is sent as Kubernetes' protobuf, and is JSON in the file
type exchange struct {
	name     string
	comment  []string
	method   string
	path     string
	headers  [][2]string
	notes    [][]string // the lines that begin with "@", in words
	body     string
	answer   answerFields
	noAnswer bool // it is not recorded yet
}

// exchangeFile is a file of exchanges about one topic.
type exchangeFile struct {
	path, version string
	exchanges     []*exchange
}

func (f *exchangeFile) topic() string {
	return strings.TrimSuffix(filepath.Base(f.path), ".http")
}

// readExchanges reads a file of exchanges.
func readExchanges(path string) (*exchangeFile, error) {
	text, err := os.ReadFile(path) // #nosec G304 -- a file of the test
	if err != nil {
		return nil, err
	}
	f, lines := &exchangeFile{path: path}, strings.Split(string(text), "\n")
	f.version = strings.TrimPrefix(lines[0], "Kubernetes ")
	var comment []string
	for n := 1; n < len(lines); n++ {
		name, begins := strings.CutPrefix(lines[n], "=== ")
		switch {
		case begins:
			x := &exchange{name: name, comment: comment}
			used, err := x.parse(lines[n+1:])
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, n+1, err)
			}
			f.exchanges, comment, n = append(f.exchanges, x), nil, n+used
		case strings.HasPrefix(lines[n], "#"):
			comment = append(comment, lines[n])
		case lines[n] != "":
			return nil, fmt.Errorf("%s:%d: %q is neither a comment nor the begin of an exchange", path, n+1, lines[n])
		}
	}
	return f, nil
}

// parse reads an exchange without its first line. It returns the number of its lines.
func (x *exchange) parse(lines []string) (used int, err error) {
	var ok bool
	if x.method, x.path, ok = strings.Cut(lines[0], " "); !ok {
		return 0, fmt.Errorf("%q is no method and path", lines[0])
	}
	n := 1
	for ; n < len(lines) && lines[n] != "" && lines[n] != "---" && !strings.HasPrefix(lines[n], "=== "); n++ {
		if note, ok := strings.CutPrefix(lines[n], "@"); ok {
			x.notes = append(x.notes, strings.Fields(note))
		} else if name, value, ok := strings.Cut(lines[n], ": "); ok {
			x.headers = append(x.headers, [2]string{name, value})
		} else {
			return 0, fmt.Errorf("%q is no header", lines[n])
		}
	}
	if n < len(lines) && lines[n] == "" {
		begin := n + 1
		for n++; n < len(lines) && lines[n] != "---" && !strings.HasPrefix(lines[n], "=== "); n++ { // the body
		}
		x.body = strings.TrimRight(strings.Join(lines[begin:n], "\n"), "\n")
	}
	if n == len(lines) || lines[n] != "---" {
		x.noAnswer = true
		return n, nil
	}
	x.answer = answerFields{}
	for n++; n < len(lines) && !strings.HasPrefix(lines[n], "=== ") && !strings.HasPrefix(lines[n], "#"); n++ {
		if path, value, ok := strings.Cut(lines[n], ": "); ok {
			x.answer[path] = value
		} else if lines[n] != "" {
			return 0, fmt.Errorf("%q is no field of an answer", lines[n])
		}
	}
	return n, nil
}

// write writes the file with the answers that the exchanges have.
func (f *exchangeFile) write() error {
	var out strings.Builder
	fmt.Fprintf(&out, "Kubernetes %s\n", f.version)
	for _, x := range f.exchanges {
		out.WriteString("\n")
		for _, line := range x.comment {
			fmt.Fprintln(&out, line)
		}
		fmt.Fprintf(&out, "=== %s\n%s %s\n", x.name, x.method, x.path)
		for _, header := range x.headers {
			fmt.Fprintf(&out, "%s: %s\n", header[0], header[1])
		}
		for _, note := range x.notes {
			fmt.Fprintf(&out, "@%s\n", strings.Join(note, " "))
		}
		if x.body != "" {
			fmt.Fprintf(&out, "\n%s\n", x.body)
		}
		out.WriteString("---\n")
		for _, path := range x.answer.paths() {
			fmt.Fprintf(&out, "%s: %s\n", path, x.answer[path])
		}
	}
	return os.WriteFile(f.path, []byte(out.String()), 0o600)
}

// note returns the words of the first note with a name.
func (x *exchange) note(name string) ([]string, bool) {
	for _, note := range x.notes {
		if note[0] == name {
			return note[1:], true
		}
	}
	return nil, false
}
