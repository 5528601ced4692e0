package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

var (
	durationType = reflect.TypeFor[time.Duration]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// settable reports whether parse supports the type.
func settable(t reflect.Type) bool {
	if reflect.PointerTo(t).Implements(textType) {
		return true
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	case reflect.Slice:
		return t.Elem().Kind() != reflect.Slice && settable(t.Elem())
	}
	return false
}

// parse parses text and stores the value in v. An empty text gives the zero value of strings, lists
// and addresses; for numbers, durations and booleans it is an error.
func parse(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := u.UnmarshalText([]byte(text)); err != nil {
			return fmt.Errorf("%q is not a valid %s: %w", text, kindName(v.Type()), err)
		}
		return nil
	}
	if v.Kind() == reflect.Slice {
		return parseList(v, text)
	}
	if err := parseScalar(v, text); err != nil {
		return fmt.Errorf("%q is not a valid %s: %w", text, kindName(v.Type()), unwrapNumError(err))
	}
	return nil
}

func parseList(v reflect.Value, text string) error {
	out := reflect.Zero(v.Type())
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		if err := parse(elem, item); err != nil {
			return err
		}
		out = reflect.Append(out, elem)
	}
	v.Set(out)
	return nil
}

func parseScalar(v reflect.Value, text string) error {
	if v.Type() == durationType {
		d, err := time.ParseDuration(text)
		if err != nil {
			return errors.New("want a number with a unit, such as 1m30s")
		}
		v.SetInt(int64(d))
		return nil
	}
	switch {
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("want true or false")
		}
		v.SetBool(b)
	case v.CanInt():
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			return err
		}
		v.SetInt(n)
	case v.CanUint():
		n, err := strconv.ParseUint(text, 10, v.Type().Bits())
		if err != nil {
			return err
		}
		v.SetUint(n)
	default:
		f, err := strconv.ParseFloat(text, v.Type().Bits())
		if err != nil {
			return err
		}
		v.SetFloat(f)
	}
	return nil
}

// unwrapNumError removes the function name and the input from an error of strconv, because the caller
// adds them.
func unwrapNumError(err error) error {
	if num, ok := errors.AsType[*strconv.NumError](err); ok {
		return num.Err
	}
	return err
}

// kindName returns the name of a type in messages.
func kindName(t reflect.Type) string {
	switch {
	case t == durationType:
		return "duration"
	case t.Kind() == reflect.Slice:
		return "list of " + kindName(t.Elem())
	case t.PkgPath() == "net/netip":
		return map[string]string{"Addr": "IP address", "AddrPort": "address:port", "Prefix": "CIDR"}[t.Name()]
	case t.PkgPath() != "":
		return strings.ToLower(t.Name())
	case t.Kind() == reflect.Bool, t.Kind() == reflect.String:
		return t.Kind().String()
	case strings.HasPrefix(t.Name(), "float"):
		return "number"
	}
	return "whole number"
}

// format returns the text of a value, the inverse of parse.
func format(v reflect.Value) string {
	if v.Kind() == reflect.Slice {
		items := make([]string, v.Len())
		for i := range items {
			items[i] = format(v.Index(i))
		}
		return strings.Join(items, ",")
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		if text, err := m.MarshalText(); err == nil {
			return string(text)
		}
	}
	return fmt.Sprint(v.Interface())
}
