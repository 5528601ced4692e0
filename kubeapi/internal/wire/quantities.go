package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"

	"portolan.dev/services/kube"
)

// Kubernetes' types parse their quantities while they are decoded, and a quantity with a long exponent takes
// seconds, or never ends. So the quantities of a body are checked before it is decoded. That is a second pass
// over the body, guided by the type. It is made only if the body has a number that may be such a quantity.

var quantityType = reflect.TypeFor[resource.Quantity]()

// CheckQuantities returns an error if a JSON text has a quantity that is not valid where an object has one.
func CheckQuantities(text []byte, into any) error {
	t := reflect.TypeOf(into)
	if !holdsQuantity(t) || !kube.MayHaveLongQuantity(text) {
		return nil
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	err := checkJSON(in, t, "")
	if _, wrong := errors.AsType[*quantityError](err); !wrong {
		return nil // the decoder of the object describes malformed texts
	}
	return err
}

// quantityError is the error of a quantity.
type quantityError struct{ path, text string }

// Error implements error.
func (e *quantityError) Error() string {
	text := e.text
	if len(text) > kube.MaxQuantity {
		text = strings.ToValidUTF8(text[:kube.MaxQuantity], "") + "…"
	}
	return fmt.Sprintf("%s: must be a quantity such as 2, 500m or 64Mi, not %q", strings.TrimPrefix(e.path, "."), text)
}

func checkQuantity(path, text string) error {
	if text = strings.TrimSpace(text); !kube.ValidQuantity(text) {
		return &quantityError{path, text}
	}
	return nil
}

// holding caches the results of holdsQuantity by type.
var holding sync.Map

// holdsQuantity reports whether an object of a type may have quantities.
func holdsQuantity(t reflect.Type) bool {
	if t == nil {
		return false
	}
	if known, ok := holding.Load(t); ok {
		return known.(bool)
	}
	holds := contains(t, map[reflect.Type]bool{})
	holding.Store(t, holds)
	return holds
}

func contains(t reflect.Type, visited map[reflect.Type]bool) bool {
	if t == quantityType {
		return true
	}
	if visited[t] {
		return false
	}
	visited[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return contains(t.Elem(), visited)
	case reflect.Struct:
		for field := range fieldsOf(t) {
			if contains(field.Type, visited) {
				return true
			}
		}
	}
	return false
}

// fieldsOf returns the fields of a struct.
func fieldsOf(t reflect.Type) iter.Seq[reflect.StructField] {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// checkJSON checks the quantities in the next value.
func checkJSON(in *json.Decoder, t reflect.Type, path string) error {
	if !holdsQuantity(t) {
		var skipped json.RawMessage
		return in.Decode(&skipped)
	}
	if t.Kind() == reflect.Pointer {
		return checkJSON(in, t.Elem(), path)
	}
	token, err := in.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case json.Delim:
		if isList := t.Kind() == reflect.Slice; isList != (token == '[') || t == quantityType {
			return skipRest(in) // the decoder of the object reports it, but decodes what follows
		}
		return checkJSONItems(in, t, path)
	case string:
		if t == quantityType {
			return checkQuantity(path, token)
		}
	case json.Number:
		if t == quantityType {
			return checkQuantity(path, token.String())
		}
	}
	return nil
}

// skipRest reads the rest of an object or a list whose first token was read.
func skipRest(in *json.Decoder) error {
	for depth := 1; depth > 0; {
		token, err := in.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
	return nil
}

// checkJSONItems checks the items of an object or a list whose first token was read, up to its last token.
func checkJSONItems(in *json.Decoder, t reflect.Type, path string) error {
	for in.More() {
		item, where := reflect.Type(nil), path
		switch t.Kind() {
		case reflect.Slice:
			item = t.Elem()
		case reflect.Map, reflect.Struct:
			key, err := in.Token()
			if err != nil {
				return err
			}
			name := fmt.Sprint(key) // a string
			item, where = itemNamed(t, name), path+"."+name
		}
		if err := checkJSON(in, item, where); err != nil {
			return err
		}
	}
	_, err := in.Token()
	return err
}

// itemNamed returns the type of the value at a key, or nil if it is not known.
func itemNamed(t reflect.Type, name string) reflect.Type {
	if t.Kind() == reflect.Map {
		return t.Elem()
	}
	for field := range fieldsOf(t) {
		tag, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case tag == name:
			return field.Type
		case tag == "" && (field.Anonymous || strings.Contains(options, "inline")) && field.Type.Kind() == reflect.Struct:
			if found := itemNamed(field.Type, name); found != nil {
				return found
			}
		}
	}
	return nil
}

// checkMessageQuantities does the same as CheckQuantities for a message of protobuf. A message that it cannot read
// is an error, because the decoder of the object reads more.
func checkMessageQuantities(message []byte, into any) error {
	t := reflect.TypeOf(into)
	if !holdsQuantity(t) || !kube.MayHaveLongQuantity(message) {
		return nil
	}
	return checkMessage(message, t.Elem(), "")
}

func checkMessage(message []byte, t reflect.Type, path string) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		size := protowire.ConsumeFieldValue(number, kind, message)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			if err := checkField(value, t, number, path); err != nil {
				return err
			}
		}
		message = message[size:]
	}
	return nil
}

// checkField checks the quantities in the field of a message of type t.
func checkField(value []byte, t reflect.Type, number protowire.Number, path string) error {
	if t == quantityType {
		if number == 1 {
			return checkQuantity(path, string(value))
		}
		return nil
	}
	item, name := itemNumbered(t, number)
	if !holdsQuantity(item) {
		return nil
	}
	return checkMessage(value, item, path+name)
}

// itemNumbered returns the type and the name of the message in a field. The entry of a map is a message with the
// key in field 1 and the value in field 2.
func itemNumbered(t reflect.Type, number protowire.Number) (reflect.Type, string) {
	if t.Kind() == reflect.Map {
		if number == 2 {
			return t.Elem(), ""
		}
		return nil, ""
	}
	for field := range fieldsOf(t) {
		parts := strings.Split(field.Tag.Get("protobuf"), ",")
		if len(parts) < 2 || parts[1] != strconv.Itoa(int(number)) {
			continue
		}
		item := field.Type
		for item.Kind() == reflect.Pointer || item.Kind() == reflect.Slice {
			item = item.Elem()
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		return item, "." + name
	}
	return nil, ""
}
