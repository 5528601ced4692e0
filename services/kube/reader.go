package kube

import (
	"fmt"
	"strconv"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/spec"
)

// Messages has the texts of violations that depend on the reader of the message: a client of Kubernetes'
// API, or the author of a manifest.
type Messages struct {
	// Supported lists the words of an enum, after a word that the enum does not have.
	Supported func(words []string) string
	// Version is the requirement for a resource version, such as "must be a number".
	Version string
}

// reader collects the mistakes in one object of Kubernetes while it is converted.
type reader struct {
	messages   *Messages
	violations apierr.Violations
}

func (r *reader) invalid(path, value, message string) {
	r.violations.Add(path, apierr.ReasonInvalid, "invalid value %q: %s", value, message)
}

// readEnum returns the enum value of a word. An empty word is the unspecified value.
func readEnum[E spec.Enum, W ~string](r *reader, path string, word W) E {
	if word == "" {
		return 0
	}
	value, ok := spec.ParseEnum[E](string(word))
	if !ok {
		r.violations.Add(path, apierr.ReasonNotSupported, "unsupported value %q: %s", word, r.messages.Supported(spec.EnumNames[E]()))
	}
	return value
}

// version reads a resource version, which is a number in Portolan and an opaque text in Kubernetes.
func (r *reader) version(path, text string) uint64 {
	if text == "" {
		return 0
	}
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		r.invalid(path, text, r.messages.Version)
	}
	return version
}

// at returns the path of an item of a list.
func at(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// each converts the items of a list. It returns nil for an empty list.
func each[A, B any](from []A, convert func(i int, item A) B) []B {
	if len(from) == 0 {
		return nil
	}
	to := make([]B, len(from))
	for i, item := range from {
		to[i] = convert(i, item)
	}
	return to
}

// words converts strings to another string type.
func words[B, A ~string](from []A) []B {
	return each(from, func(_ int, word A) B { return B(word) })
}

// value returns the value that a pointer points to, or the zero value if it is nil.
func value[T any](from *T) T {
	if from == nil {
		var zero T
		return zero
	}
	return *from
}

// unlessZero returns a pointer to a value. It returns nil for the zero value.
func unlessZero[T comparable](from T) *T {
	var zero T
	if from == zero {
		return nil
	}
	return &from
}

// enumPointer returns the word of an enum for a pointer field of Kubernetes. It returns nil for the
// unspecified value.
func enumPointer[W ~string, E spec.Enum](from E) *W {
	if from == 0 {
		return nil
	}
	return new(W(spec.EnumName(from)))
}

func nonEmpty(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}
