package docker

import (
	"fmt"
	"strconv"
	"strings"

	"portolan.dev/registrar/internal/terms"
	"portolan.dev/registrar/source"
)

// prefix begins the names of the labels that the source reads.
const prefix = "portolan."

// The words that only containers have.
const (
	wordNetwork = "network" // the network whose address is registered
	wordPublish = "publish" // true: the node's address and the published ports
	wordIgnore  = "ignore"  // true: the container is not registered
)

var ownWords = []string{wordNetwork, wordPublish, wordIgnore}

// The labels of Docker Compose.
const (
	composeService = "com.docker.compose.service"
	composeProject = "com.docker.compose.project"
	composeOneOff  = "com.docker.compose.oneoff" // True for containers of "compose run"
)

// Reasons of problems that only containers have.
const (
	reasonNoService      = "NoServiceName"
	reasonNoEffect       = "NoEffect"
	reasonPublishedTwice = "PublishedTwice"
	reasonNotPublished   = "NotPublished"
	reasonNoAnswer       = "NoAnswer"
)

// words are what somebody has written about a container.
type words struct {
	values map[string]string // by the word of package terms, or an own one
	from   map[string]string // the label or variable that a word was read of
	own    bool              // there are labels with our prefix

	// Ports of registrator's variables. They count if there is no word for a port.
	ports     []source.Port
	onlyNamed bool            // the exposed ports without a variable are left out
	skipped   map[string]bool // exposed ports that are left out, such as "8000"
}

// wordsOf reads the labels of a container, then registrator's variables and Compose's labels for the words
// that are not given.
func (o *Options) wordsOf(c *container, p *problems) *words {
	w := &words{values: map[string]string{}, from: map[string]string{}, skipped: map[string]bool{}}
	for label, value := range c.Config.Labels {
		if word, found := strings.CutPrefix(label, prefix); found {
			w.set(word, value, label)
			w.own = true
		}
	}
	if !o.NoServiceVariables {
		w.readVariables(c, p)
	}
	if o.ComposeNames && !strings.EqualFold(c.Config.Labels[composeOneOff], "true") {
		w.setDefault(terms.Service, c.Config.Labels[composeService], composeService)
		w.setDefault(terms.Namespace, c.Config.Labels[composeProject], composeProject)
	}
	return w
}

func (w *words) set(word, value, from string) { w.values[word], w.from[word] = value, from }

// setDefault sets a word unless it is given.
func (w *words) setDefault(word, value, from string) {
	if _, given := w.values[word]; !given && value != "" {
		w.set(word, value, from)
	}
}

// spell returns the label or variable of a word.
func (w *words) spell(word string) string {
	if from := w.from[word]; from != "" {
		return shorten(from)
	}
	return shorten(prefix + word)
}

// flag reads a word that is true or false. Without the word, or with another value, it is false.
func (w *words) flag(word string, p *problems) bool {
	value, given := w.values[word]
	if !given {
		return false
	}
	set, err := strconv.ParseBool(strings.TrimSpace(value))
	if err != nil {
		p.add(w.spell(word), source.ReasonInvalid, "%s=%q: want true or false", w.spell(word), shorten(value))
	}
	return set
}

// isAsked reports whether somebody has written about the container itself. Otherwise it would be registered
// only because it belongs to a project of Compose.
func (w *words) isAsked() bool { return w.own || w.from[terms.Service] != composeService }

// wanted reports whether the container should be registered. Containers that nobody has written about are
// not, and are no problem.
func (w *words) wanted(p *problems) bool {
	if w.flag(wordIgnore, p) {
		return false
	}
	if _, given := w.values[terms.Service]; given {
		return true
	}
	if w.own {
		p.add(prefix+terms.Service, reasonNoService, "it has labels of Portolan but no %s, so it is not registered: add the label", prefix+terms.Service)
	}
	return false
}

// maxProblems is the largest number of problems of a container that are reported.
const maxProblems = 20

// problems collects what is wrong with a container.
type problems struct {
	object string
	list   []source.Problem
}

// found returns the problems, or the first of very many and how many there are.
func (p *problems) found() []source.Problem {
	if len(p.list) <= maxProblems {
		return p.list
	}
	all := len(p.list)
	p.list = p.list[:maxProblems-1]
	p.add("", source.ReasonInvalid, "it has %d problems, of which these are the first %d", all, maxProblems-1)
	return p.list
}

func (p *problems) add(field, reason, format string, args ...any) {
	p.list = append(p.list, source.Problem{Object: p.object, Field: field, Reason: reason, Message: fmt.Sprintf(format, args...)})
}
