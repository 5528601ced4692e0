package docker

import (
	"fmt"
	"strconv"
	"strings"

	"portolan.dev/registrar/internal/labels"
	"portolan.dev/registrar/source"
)

// The labels that messages name.
var (
	labelService  = labels.Docker.Spell(labels.Service)
	labelPort     = labels.Docker.Spell(labels.Port)
	labelPodLabel = labels.Docker.Spell(labels.PodLabel)
	labelReady    = labels.Docker.Spell(labels.Ready)
	labelNetwork  = labels.Docker.Spell(labels.Network)
	labelPublish  = labels.Docker.Spell(labels.Publish)
)

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

// labelSet has the labels of a container, from Docker's labels, registrator's variables and Compose's labels.
type labelSet struct {
	values map[string]string // by the names of package labels
	from   map[string]string // by the same names: the label or variable that the value is from
	own    bool              // the container has labels with Portolan's prefix

	// ports are from registrator's variables. They count if there is no label of a port.
	ports     []source.Port
	onlyNamed bool            // no exposed ports are added
	skipped   map[string]bool // exposed ports that are not added, such as "8000"
}

// labelsOf reads the labels of a container. Values that they lack are taken from registrator's variables,
// then from Compose's labels.
func (o *Options) labelsOf(c *container, p *problems) *labelSet {
	l := &labelSet{values: map[string]string{}, from: map[string]string{}, skipped: map[string]bool{}}
	for label, value := range c.Config.Labels {
		if strings.HasPrefix(label, labels.Docker.Prefix) {
			l.set(labels.Docker.Name(label), value, label)
			l.own = true
		}
	}
	if !o.NoServiceVariables {
		l.readVariables(c, p)
	}
	if o.ComposeNames && !strings.EqualFold(c.Config.Labels[composeOneOff], "true") {
		l.setDefault(labels.Service, c.Config.Labels[composeService], composeService)
		l.setDefault(labels.Namespace, c.Config.Labels[composeProject], composeProject)
	}
	return l
}

func (l *labelSet) set(name, value, from string) { l.values[name], l.from[name] = value, from }

// setDefault sets a label unless it is set already or value is empty.
func (l *labelSet) setDefault(name, value, from string) {
	if _, given := l.values[name]; !given && value != "" {
		l.set(name, value, from)
	}
}

// spell returns the label or variable that a value is from, or the label to write if there is no value.
func (l *labelSet) spell(name string) string {
	if from := l.from[name]; from != "" {
		return shorten(from)
	}
	return shorten(labels.Docker.Spell(name))
}

// flag reads a label that is true or false. It returns false without the label or with another value.
func (l *labelSet) flag(name string, p *problems) bool {
	value, given := l.values[name]
	if !given {
		return false
	}
	set, err := strconv.ParseBool(strings.TrimSpace(value))
	if err != nil {
		p.add(l.spell(name), source.ReasonInvalid, "%s=%q: want true or false", l.spell(name), shorten(value))
	}
	return set
}

// isAsked reports whether the container has a label or variable that asks for its registration. Otherwise
// only Options.ComposeNames does, for all containers of Compose projects.
func (l *labelSet) isAsked() bool { return l.own || l.from[labels.Service] != composeService }

// wanted reports whether the container should be registered. A container without labels is not registered,
// which is not a problem.
func (l *labelSet) wanted(p *problems) bool {
	if l.flag(labels.Ignore, p) {
		return false
	}
	if _, given := l.values[labels.Service]; given {
		return true
	}
	if l.own {
		p.add(labelService, reasonNoService, "it has labels of Portolan but no %s, so it is not registered: add the label", labelService)
	}
	return false
}

// maxProblems limits the reported problems of one container.
const maxProblems = 20

// problems collects the problems of a container.
type problems struct {
	object string
	list   []source.Problem
}

// found returns the problems. If there are more than maxProblems, it returns the first of them and their
// number.
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
