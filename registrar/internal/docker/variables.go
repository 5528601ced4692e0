package docker

import (
	"maps"
	"slices"
	"strings"

	"portolan.dev/registrar/internal/terms"
	"portolan.dev/registrar/source"
)

// variablePrefix is that of registrator's variables, which are labels or variables of the environment:
// https://gliderlabs.github.io/registrator/latest/user/services/.
const variablePrefix = "SERVICE_"

// The endings of registrator's variables that are read, after SERVICE_ or SERVICE_8000_.
const (
	variableName   = "NAME"
	variableIgnore = "IGNORE"
)

// variableChecks are the checks of registrator with the address of the check that they become.
var variableChecks = map[string]func(port, value string) string{
	"CHECK_HTTP":  func(port, path string) string { return "http://:" + port + "/" + strings.TrimPrefix(path, "/") },
	"CHECK_HTTPS": func(port, path string) string { return "https://:" + port + "/" + strings.TrimPrefix(path, "/") },
	"CHECK_TCP":   func(port, _ string) string { return "tcp://:" + port },
}

// variable is one of registrator's variables.
type variable struct {
	name        string // as it was written
	port, field string // 8000 and NAME of SERVICE_8000_NAME; port is empty in SERVICE_NAME
	value       string
}

// variablesOf returns the variables of a container by name. Labels win over the environment, as in
// registrator.
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

// readVariables reads registrator's variables. Registrator makes a service of each port, and a pod is a
// backend of one service. Therefore SERVICE_8000_NAME is the name of the port, unless there is no name for
// the container: then it is the name of the service, which has only this port. A container with the label
// portolan.service is described by labels alone.
func (w *words) readVariables(c *container, p *problems) {
	if _, labelled := w.values[terms.Service]; labelled {
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
			w.setDefault(terms.Service, v.value, v.name)
		case v.field == variableIgnore && v.port != "":
			w.skipped[v.port] = true
		case v.field == variableIgnore:
			w.setDefault(wordIgnore, "true", v.name)
		}
	}
	if _, given := w.values[terms.Service]; !given {
		named = w.serviceOfPorts(named, p)
	}
	if _, given := w.values[terms.Service]; !given {
		return
	}
	w.namePorts(c, named, p)
	w.readChecks(c, variables, p)
}

// serviceOfPorts makes the service of the names of ports, which must agree, and returns the ports without
// their names.
func (w *words) serviceOfPorts(named []variable, p *problems) []variable {
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
		w.set(terms.Service, named[0].value, named[0].name)
		w.onlyNamed = true
	}
	return unnamed
}

// namePorts takes the ports of variables. They are not exposed a second time.
func (w *words) namePorts(c *container, named []variable, p *problems) {
	for _, v := range named {
		ports, err := terms.Ports(v.value, v.port+"/"+protocolOf(c, v.port))
		if err != nil {
			p.add(v.name, source.ReasonInvalid, "%s: %v", v.name, err)
			continue
		}
		w.ports = append(w.ports, ports...)
		w.skipped[v.port] = true
	}
}

// protocolOf returns the protocol of an exposed port: TCP, unless only another one is exposed.
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

// readChecks makes the check of readiness of registrator's, and reports the variables that have no effect.
func (w *words) readChecks(c *container, variables []variable, p *problems) {
	for _, v := range variables {
		address, known := variableChecks[v.field]
		check := strings.HasPrefix(v.field, "CHECK_")
		switch {
		case v.value == "":
		case known && v.port == "" && len(c.Config.ExposedPorts) != 1:
			p.add(v.name, source.ReasonAmbiguous, "%s does not say which of several ports is checked: write SERVICE_PORT_%s, or %s%s",
				v.name, v.field, prefix, terms.Ready)
		case known:
			w.setDefault(terms.Ready, address(portOf(c, v), v.value), v.name)
		case check || v.field == "TAGS" || v.field == "ID":
			p.add(v.name, reasonNoEffect, "%s has no effect in Portolan: %s", v.name, insteadOf(v.field))
		}
	}
}

// portOf returns the port of a variable, or the only exposed one.
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

// insteadOf says what to write instead of a variable without effect.
func insteadOf(field string) string {
	switch field {
	case "TAGS":
		return "write labels as " + prefix + terms.Label + "NAME"
	case "ID":
		return "the registrar makes the names of pods"
	}
	return "write the check as " + prefix + terms.Ready
}
