package systemd

import (
	"fmt"
	"strconv"
	"strings"
)

// expand replaces the specifiers of systemd.unit(5) that depend on the name of the unit only. It returns an
// error for other specifiers.
func expand(value, unit string) (string, error) {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(value, "%")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		if after == "" {
			return "", fmt.Errorf("ends in %%; a percent sign is written %%%%")
		}
		text, ok := specifier(after[0], unit)
		if !ok {
			return "", fmt.Errorf("the specifier %%%s is not known here; known are %%n, %%N, %%p, %%P, %%j, %%J, %%i, %%I, and %%%% for a percent sign", after[:1])
		}
		out.WriteString(text)
		value = after[1:]
	}
}

// specifier returns the value of a specifier by its letter.
func specifier(letter byte, unit string) (text string, ok bool) {
	base := strings.TrimSuffix(unit, suffix)
	prefix, instance, _ := strings.Cut(base, "@")
	last := prefix[strings.LastIndexByte(prefix, '-')+1:]
	switch letter {
	case '%':
		return "%", true
	case 'n':
		return unit, true
	case 'N':
		return base, true
	case 'p':
		return prefix, true
	case 'P':
		return unescape(prefix), true
	case 'j':
		return last, true
	case 'J':
		return unescape(last), true
	case 'i':
		return instance, true
	case 'I':
		return unescape(instance), true
	}
	return "", false
}

// unescape undoes the escaping of systemd-escape(1): a dash is a slash, and \x2d is a byte.
func unescape(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '-':
			out.WriteByte('/')
		case strings.HasPrefix(text[i:], `\x`) && len(text) >= i+4:
			b, err := strconv.ParseUint(text[i+2:i+4], 16, 8)
			if err != nil {
				return text
			}
			out.WriteByte(byte(b))
			i += 3
		default:
			out.WriteByte(text[i])
		}
	}
	return out.String()
}
