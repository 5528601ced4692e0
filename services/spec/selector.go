package spec

import (
	"fmt"
	"slices"
	"strings"
)

// Selector selects objects by their labels. The zero value selects all objects.
type Selector struct{ requirements []requirement }

type operator string

const (
	opIn     operator = "in"
	opNotIn  operator = "notin"
	opExists operator = "exists"
	opAbsent operator = "!"
)

// requirement is one term. The terms = and != are stored as in and notin with one value.
type requirement struct {
	key    string
	op     operator
	values []string
}

// ParseSelector parses the selector language of Kubernetes: a list of terms "k=v", "k==v", "k!=v",
// "k in (a,b)", "k notin (a,b)", "k" and "!k", separated by commas. An object must satisfy all
// terms.
func ParseSelector(text string) (Selector, error) {
	p := selectorParser{tokens: scanSelector(text)}
	requirements, err := p.parse()
	if err != nil {
		return Selector{}, fmt.Errorf("label selector %q: %w", truncate(text), err)
	}
	return Selector{requirements}, nil
}

// Empty reports whether the selector selects all objects.
func (s Selector) Empty() bool { return len(s.requirements) == 0 }

// Matches reports whether the selector selects an object with these labels. The terms "k!=v" and "k
// notin (v)" also select objects without the label k.
func (s Selector) Matches(labels map[string]string) bool {
	for _, r := range s.requirements {
		if !r.matches(labels) {
			return false
		}
	}
	return true
}

func (r requirement) matches(labels map[string]string) bool {
	value, has := labels[r.key]
	switch r.op {
	case opIn:
		return has && slices.Contains(r.values, value)
	case opNotIn:
		return !has || !slices.Contains(r.values, value)
	case opExists:
		return has
	default:
		return !has
	}
}

// String returns the selector in a form from which ParseSelector makes the same selector.
func (s Selector) String() string {
	terms := make([]string, len(s.requirements))
	for i, r := range s.requirements {
		terms[i] = r.String()
	}
	return strings.Join(terms, ",")
}

func (r requirement) String() string {
	switch {
	case r.op == opExists:
		return r.key
	case r.op == opAbsent:
		return "!" + r.key
	case r.op == opIn && len(r.values) == 1:
		return r.key + "=" + r.values[0]
	case r.op == opNotIn && len(r.values) == 1:
		return r.key + "!=" + r.values[0]
	default:
		return r.key + " " + string(r.op) + " (" + strings.Join(r.values, ",") + ")"
	}
}

// MatchEquality reports whether a service's selector selects an object with these labels. The
// object must have all pairs. An empty selector selects nothing, because the endpoints of such a
// service are written by hand.
func MatchEquality(selector, labels map[string]string) bool {
	for key, value := range selector {
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
	}
	return len(selector) > 0
}

// scanSelector splits a text into words and the symbols "!", "=", "==", "!=", "(", ")" and ",".
func scanSelector(text string) []string {
	const symbols = "!=(),<>"
	var tokens []string
	for i := 0; i < len(text); {
		switch b := text[i]; {
		case b == ' ' || b == '\t' || b == '\r' || b == '\n':
			i++
		case strings.HasPrefix(text[i:], "==") || strings.HasPrefix(text[i:], "!="):
			tokens = append(tokens, text[i:i+2])
			i += 2
		case strings.IndexByte(symbols, b) >= 0:
			tokens = append(tokens, text[i:i+1])
			i++
		default:
			end := i
			for end < len(text) && strings.IndexByte(symbols+" \t\r\n", text[end]) < 0 {
				end++
			}
			tokens = append(tokens, text[i:end])
			i = end
		}
	}
	return tokens
}

type selectorParser struct {
	tokens []string
}

// peek returns the next token without consuming it, or "" at the end.
func (p *selectorParser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *selectorParser) next() string {
	token := p.peek()
	if token != "" {
		p.tokens = p.tokens[1:]
	}
	return token
}

func isWord(token string) bool { return token != "" && !strings.ContainsAny(token, "!=(),<>") }

func (p *selectorParser) parse() ([]requirement, error) {
	var requirements []requirement
	for p.peek() != "" {
		r, err := p.term()
		if err != nil {
			return nil, err
		}
		requirements = append(requirements, r)
		switch token := p.next(); {
		case token == "":
		case token != ",":
			return nil, fmt.Errorf("found %q where ',' or the end was expected", token)
		case p.peek() == "":
			return nil, fmt.Errorf("nothing follows the last ','")
		}
	}
	return requirements, nil
}

func (p *selectorParser) term() (requirement, error) {
	r := requirement{op: opExists}
	if p.peek() == "!" {
		p.next()
		r.op = opAbsent
	}
	r.key = p.next()
	if !isWord(r.key) {
		return r, fmt.Errorf("found %q where the key of a label was expected", r.key)
	}
	if problem := QualifiedName(r.key); problem != "" {
		return r, fmt.Errorf("key %q %s", truncate(r.key), problem)
	}
	if token := p.peek(); token == "" || token == "," || r.op == opAbsent {
		return r, nil
	}
	return p.comparison(r)
}

func (p *selectorParser) comparison(r requirement) (requirement, error) {
	var err error
	switch token := p.next(); token {
	case "=", "==":
		r.op = opIn
		r.values, err = p.value()
	case "!=":
		r.op = opNotIn
		r.values, err = p.value()
	case "in", "notin":
		r.op = operator(token)
		r.values, err = p.values()
	default:
		return r, fmt.Errorf("found %q after key %q where one of =, ==, !=, in, notin was expected", token, r.key)
	}
	for _, value := range r.values {
		if problem := LabelValue(value); problem != "" && err == nil {
			err = fmt.Errorf("value %q %s", truncate(value), problem)
		}
	}
	return r, err
}

// value parses the value of an equality, which may be empty.
func (p *selectorParser) value() ([]string, error) {
	if token := p.peek(); token == "" || token == "," {
		return []string{""}, nil
	}
	token := p.next()
	if !isWord(token) {
		return nil, fmt.Errorf("found %q where a value was expected", token)
	}
	return []string{token}, nil
}

// values parses a list "(a,b)", in which values may be empty. It returns the values sorted, without
// duplicates.
func (p *selectorParser) values() ([]string, error) {
	if token := p.next(); token != "(" {
		return nil, fmt.Errorf("found %q where '(' was expected", token)
	}
	var values []string
	for {
		value := ""
		if isWord(p.peek()) {
			value = p.next()
		}
		values = append(values, value)
		switch token := p.next(); token {
		case ",":
		case ")":
			slices.Sort(values)
			return slices.Compact(values), nil
		default:
			return nil, fmt.Errorf("found %q in a list of values where ',' or ')' was expected", token)
		}
	}
}
