package docker

import (
	"maps"
	"slices"
	"strings"

	"portolan.dev/registrar/internal/labels"
	"portolan.dev/registrar/source"
)

// variablePrefix begins registrator's variables, which are labels or environment variables of a container:
// https://gliderlabs.github.io/registrator/latest/user/services/.
const variablePrefix = "SERVICE_"

// The endings of registrator's variables that are read, after SERVICE_ or SERVICE_8000_.
const (
	variableName   = "NAME"
	variableIgnore = "IGNORE"
)

// variableChecks returns, for each of registrator's checks, the value of the label ready.
var variableChecks = map[string]func(port, value string) string{
	"CHECK_HTTP":  func(port, path string) string { return "http://:" + port + "/" + strings.TrimPrefix(path, "/") },
	"CHECK_HTTPS": func(port, path string) string { return "https://:" + port + "/" + strings.TrimPrefix(path, "/") },
	"CHECK_TCP":   func(port, _ string) string { return "tcp://:" + port },
}

// variable is one of registrator's variables.
type variable struct {
	name        string // as the user wrote it
	port, field string // 8000 and NAME of SERVICE_8000_NAME; port is empty in SERVICE_NAME
	value       string
}

// variablesOf returns registrator's variables of a container, sorted by name. Labels override the
// environment, as in registrator.
func variablesOf(c *container) []variable {
	values := map[string]string{}
	for _, assignment := range c.Config.Env {
		if name, value, _ := strings.Cut(assignment, "="); strings.HasPrefix(name, variablePrefix) {
			values[name] = value
		}
	}
	for name, value := range c.Config.Labels {
		if strings.HasPrefix(name, variablePrefix) {
			values[name] = value
		}
	}
	var list []variable
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := variable{name: name, field: strings.TrimPrefix(name, variablePrefix), value: values[name]}
		if port, field, found := strings.Cut(v.field, "_"); found && strings.Trim(port, "0123456789") == "" {
			v.port, v.field = port, field
		}
		list = append(list, v)
	}
	return list
}

// readVariables reads registrator's variables, unless the container has the label portolan.service.
//
// Registrator makes a service for each port, but a pod is a backend of one service. So with SERVICE_NAME,
// SERVICE_8000_NAME is the name of the port. Without SERVICE_NAME, it is the name of the service, which has
// only this port.
func (l *labelSet) readVariables(c *container, p *problems) {
	if _, labelled := l.values[labels.Service]; labelled {
		return
	}
	variables := variablesOf(c)
	var named []variable
	for _, v := range variables {
		switch {
		case v.value == "":
		case v.field == variableName && v.port != "":
			named = append(named, v)
		case v.field == variableName:
			l.setDefault(labels.Service, v.value, v.name)
		case v.field == variableIgnore && v.port != "":
			l.skipped[v.port] = true
		case v.field == variableIgnore:
			l.setDefault(labels.Ignore, "true", v.name)
		}
	}
	if _, given := l.values[labels.Service]; !given {
		named = l.serviceOfPorts(named, p)
	}
	if _, given := l.values[labels.Service]; !given {
		return
	}
	l.namePorts(c, named, p)
	l.readChecks(c, variables, p)
}

// serviceOfPorts takes the name of the service from the names of the ports, which must be equal. It returns
// the ports without names.
func (l *labelSet) serviceOfPorts(named []variable, p *problems) []variable {
	var unnamed []variable
	for _, v := range named {
		if first := named[0]; v.value != first.value {
			p.add(v.name, source.ReasonAmbiguous, "%s and %s name two services, and a container is a backend of one: "+
				"set SERVICE_NAME, and these become the names of its ports", first.name, v.name)
			return nil
		}
		unnamed = append(unnamed, variable{name: v.name, port: v.port})
	}
	if len(named) > 0 {
		l.set(labels.Service, named[0].value, named[0].name)
		l.onlyNamed = true
	}
	return unnamed
}

// namePorts adds the ports of variables, and keeps exposed from adding them a second time.
func (l *labelSet) namePorts(c *container, named []variable, p *problems) {
	for _, v := range named {
		ports, err := labels.Ports(v.value, v.port+"/"+protocolOf(c, v.port))
		if err != nil {
			p.add(v.name, source.ReasonInvalid, "%s: %v", v.name, err)
			continue
		}
		l.ports = append(l.ports, ports...)
		l.skipped[v.port] = true
	}
}

// protocolOf returns the protocol of a port: TCP, unless the container exposes the port for other protocols
// only.
func protocolOf(c *container, port string) string {
	if _, tcp := c.Config.ExposedPorts[port+"/tcp"]; tcp {
		return "tcp"
	}
	for exposed := range c.Config.ExposedPorts {
		if number, protocol, _ := strings.Cut(exposed, "/"); number == port {
			return protocol
		}
	}
	return "tcp"
}

// readChecks takes the label ready from registrator's checks, and reports the variables that have no effect.
func (l *labelSet) readChecks(c *container, variables []variable, p *problems) {
	for _, v := range variables {
		address, known := variableChecks[v.field]
		check := strings.HasPrefix(v.field, "CHECK_")
		switch {
		case v.value == "":
		case known && v.port == "" && len(c.Config.ExposedPorts) != 1:
			p.add(v.name, source.ReasonAmbiguous, "%s does not say which of several ports is checked: write SERVICE_PORT_%s, or %s",
				v.name, v.field, labelReady)
		case known:
			l.setDefault(labels.Ready, address(portOf(c, v), v.value), v.name)
		case check || v.field == "TAGS" || v.field == "ID":
			p.add(v.name, reasonNoEffect, "%s has no effect in Portolan: %s", v.name, insteadOf(v.field))
		}
	}
}

// portOf returns the port of a variable, or the only exposed port if the variable has none.
func portOf(c *container, v variable) string {
	if v.port != "" {
		return v.port
	}
	for exposed := range c.Config.ExposedPorts {
		port, _, _ := strings.Cut(exposed, "/")
		return port
	}
	return ""
}

// insteadOf returns the remedy for a variable without effect.
func insteadOf(field string) string {
	switch field {
	case "TAGS":
		return "write labels as " + labelPodLabel + "NAME"
	case "ID":
		return "the registrar makes the names of pods"
	}
	return "write the check as " + labelReady
}
